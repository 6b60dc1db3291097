"""`osmosis eval run`: from a request to a report.

The order matters. Every input is read and checked first; then the run's lock is taken and the run directory looked at; only
when there is work, a person agreed, and the model answered, is anything created (`invocation`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from osmosis.pure.conclusion import declined_report, interrupted_report, run_report
from osmosis.pure.digest import compare_source_files, decode_source_files
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.journal import RunHistory, WorkItem
from osmosis.pure.metrics_file import decode_metrics
from osmosis.pure.plan import Manifest, compare_inputs, decode_manifest, work_items
from osmosis.pure.projections import eval_run_info
from osmosis.pure.report import PlanSummary, RunReport, RunStatus
from osmosis.pure.resume import SourceChanges, Workload, refusal, workload
from osmosis.pure.tally import finished_item
from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.journal_file import JournalReading, read_journal, settle_journal
from osmosis.shell.evaluation.orphans import stop_orphans
from osmosis.shell.evaluation.preparation import Preparation, prepare, with_access
from osmosis.shell.evaluation.request import RunRequest
from osmosis.shell.evaluation.run_directory import disk_errors, locked, refuse_foreign
from osmosis.shell.evaluation.view import RunView


def run_evaluation(request: RunRequest, view: RunView, files: FileLayer | None = None) -> RunReport:
    """Run what `request` asks for and report how it went.

    Raises OsmosisError for anything a person has to mend first, and KeyboardInterrupt when interrupted while inputs are still
    being read or a question is open. Later, an interrupt ends in a report.
    """
    files = files or FileLayer()
    report = _run(prepare(request, can_ask=view.interactive), view, files)
    if report.status is RunStatus.NOOP and view.propose(f"{report.message} Start a new run beside it?"):
        again = msgspec.structs.replace(request, name=None)
        return _run(prepare(again, can_ask=view.interactive), view, files)
    return report


def _run(preparation: Preparation, view: RunView, files: FileLayer) -> RunReport:
    with disk_errors(preparation.directory):
        stop_orphans(preparation.directory.output_root, view.milestone)
        return _run_locked(preparation, view, files)


def _run_locked(preparation: Preparation, view: RunView, files: FileLayer) -> RunReport:
    with locked(preparation.directory) as lock:
        found = None if preparation.request.fresh else _find(preparation)
        reading = found.reading if found else JournalReading(RunHistory(preparation.total_items))
        work = workload(_items(preparation), reading.history, retry_failed=preparation.request.retry_failed)
        plan = _plan_summary(preparation, work, reading.history)
        if found and not work.size:
            view.plan(plan)
            return _look(preparation, found, files)
        preparation = with_access(preparation, can_ask=view.interactive)
        # What starting brings along, a look at a finished run does without.
        from osmosis.shell.evaluation.server_launch import early_standby  # noqa: PLC0415

        lock.identify(utc_now())
        with early_standby(preparation) as standby:
            view.plan(plan)
            if preparation.cassette is None and not view.confirm(_question(plan), default=False):
                return declined_report(plan, str(preparation.workspace))
            manifest = found.manifest if found else None
            # Brings an event loop, which the standby need not wait for.
            from osmosis.shell.evaluation.invocation import Invocation  # noqa: PLC0415

            try:
                # Of a dataset that was only recognised so far; here an interrupt ends that at once.
                preparation.dataset.rows.load()
                return Invocation(preparation, view, files, manifest, reading, work, standby).perform()
            except KeyboardInterrupt:
                exists = preparation.directory.path.exists()
                return interrupted_report(plan, str(preparation.workspace), exists=exists)


def _question(plan: PlanSummary) -> str:
    return f"{plan.pending} rollouts x model {plan.model_path}. Continue?"


class _Found(msgspec.Struct, frozen=True):
    """A run that exists: its manifest and its journal."""

    manifest: Manifest
    reading: JournalReading


def _items(preparation: Preparation) -> Iterator[WorkItem]:
    return work_items(len(preparation.dataset.rows), preparation.config.evaluation.n)


def _find(preparation: Preparation) -> _Found | None:
    """The run of that name, if there is one and its inputs are today's. Raises OsmosisError when they are not."""
    directory = preparation.directory
    if not directory.manifest.exists():
        if directory.journal.exists():
            raise OsmosisError(
                f"Run {directory.name} has a journal but no manifest.",
                problems=[Problem(str(directory.manifest), "no such file")],
                hint="Restore the manifest, use another --name, or start over with --fresh (the directory is archived).",
            )
        refuse_foreign(directory)
        return None
    manifest = decode_manifest(directory.manifest.read_bytes(), str(directory.manifest))
    changes = compare_inputs(manifest.inputs, preparation.inputs)
    if changes:
        raise refusal(directory.name, changes, _source_changes(preparation))
    return _Found(manifest, read_journal(directory.journal, preparation.total_items))


def _source_changes(preparation: Preparation) -> SourceChanges | None:
    path = preparation.directory.source_files
    if not path.exists():
        return None
    before = decode_source_files(path.read_bytes(), str(path))
    return SourceChanges(*compare_source_files(before.files, preparation.sources.files))


def _plan_summary(preparation: Preparation, work: Workload, history: RunHistory) -> PlanSummary:
    experiment = preparation.config.experiment
    return PlanSummary(
        run_name=preparation.directory.name,
        rollout=experiment.rollout,
        entrypoint=experiment.entrypoint,
        model_path=experiment.model_path,
        dataset_label=f"{experiment.dataset} ({preparation.dataset.label})",
        selected_rows=len(preparation.dataset.rows),
        total_rows=preparation.dataset.total_rows,
        runs_per_row=preparation.config.evaluation.n,
        work_items=preparation.total_items,
        pending=work.size,
        recorded=len(history.results) - len(work.superseded),
        output_path=str(preparation.directory.path),
        branch=experiment.branch,
        commit_sha=experiment.commit_sha,
        cassette=str(preparation.request.replay) if preparation.request.replay else None,
        carried=tuple(
            finished_item(result, preparation.inputs.pass_threshold)
            for item, result in history.results.items()
            if item not in work.superseded
        ),
    )


def _look(preparation: Preparation, found: _Found, files: FileLayer) -> RunReport:
    """A finished run: read, not touched, unless its last invocation was cut short before the final projections."""
    directory, history = preparation.directory, found.reading.history
    metrics = decode_metrics(directory.metrics.read_bytes(), str(directory.metrics)) if directory.metrics.exists() else None
    if metrics is None or metrics.eval_run != eval_run_info(found.manifest, history, running=False):
        from osmosis.shell.evaluation.projection import Projector  # noqa: PLC0415 - for a run that was cut short alone

        settle_journal(files, directory.journal, found.reading)
        summary = Projector(files, directory, lambda _: None).finalize(found.manifest, history)
    else:
        summary = metrics.summary
    return run_report(
        name=directory.name,
        manifest=found.manifest,
        history=history,
        closing=None,
        metrics=summary,
        output_path=str(directory.path),
        trials_path=str(directory.trials),
        workspace_directory=str(preparation.workspace),
    )

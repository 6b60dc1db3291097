"""`osmosis eval regrade`: the grader as it is now, over the samples that a run stored; no workflow, no model (issue 8).

The rollout's own server grades, in the rollout's own environment, as in an evaluation; the SDK hands it stored samples where
a workflow would run. A server that does not promise so in its health report gets no work. The new run becomes a run only at
the end, when its manifest is written: what is cut short leaves nothing.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from osmosis import __version__
from osmosis.pure.config import EvalConfig, decode_config
from osmosis.pure.dataset_rows import encode_dataset_rows
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.journal import Attempt, Ending, InvocationEnded, InvocationStarted, Record, Result, WorkItem, encode_record
from osmosis.pure.names import validate_name
from osmosis.pure.outcome import classify
from osmosis.pure.plan import (
    DatasetIdentity,
    Provenance,
    RunInputs,
    new_manifest,
    run_inputs,
)
from osmosis.pure.protocol import STORED_SAMPLES_ENV, InitRequest
from osmosis.pure.redaction import Redactor
from osmosis.pure.regrading import Regraded, regraded, ungradable
from osmosis.pure.secret_forms import secret_values
from osmosis.pure.secret_resolution import values_to_redact
from osmosis.pure.stored_run import StoredRun
from osmosis.pure.supervisor import item_deadline
from osmosis.pure.tally import is_graded, passed
from osmosis.shell.evaluation import run_directory
from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.credentials import read_secrets_file, resolve_secrets
from osmosis.shell.evaluation.dataset_file import LoadedDataset
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.hostile_files import Unreadable, list_files, read_file
from osmosis.shell.evaluation.journal_file import read_journal
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.rollout_client import AdmissionRefused, RolloutClient, ServerUnreachable
from osmosis.shell.evaluation.rollout_dependencies import sync_environment
from osmosis.shell.evaluation.rollout_process import RolloutProcess
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_evidence import RunEvidence
from osmosis.shell.evaluation.run_location import locate_run
from osmosis.shell.evaluation.run_log import RunLog
from osmosis.shell.evaluation.run_reader import load_dataset_of, read_run
from osmosis.shell.evaluation.source_tree import scan_source_tree
from osmosis.shell.evaluation.standby import Launch, Start
from osmosis.shell.evaluation.trial_files import SAMPLE_FILE, read_trial_file
from osmosis.shell.evaluation.workspace import find_workspace, locate_config

_NO_MODEL = "http://127.0.0.1:9/v1"
"""Where a grader that asks the rollout's model finds nobody: port 9 is the one for discarding."""
_STOP_GRACE_SEC = 10.0
_MOST_IN_FLIGHT = 16
_MAX_FILE_BYTES = 256 << 20


class RegradeRequest(msgspec.Struct, frozen=True):
    """`config` is None for the config that the run was made with. The dataset must be the run's."""

    working_directory: Path
    run: str
    dataset_file: Path
    name: str
    config: Path | None = None
    secrets_file: str | None = None
    output: Path | None = None


class _Plan(msgspec.Struct, frozen=True):
    """Everything that is known before anything is written."""

    parent: StoredRun
    parent_directory: RunDirectory
    directory: RunDirectory
    config: EvalConfig
    project: Path
    dataset: LoadedDataset
    inputs: RunInputs
    provenance: Provenance


def regrade(request: RegradeRequest, milestone: Callable[[str], None]) -> Regraded:
    """Grade the stored samples and write the new run. Raises OsmosisError; then nothing is left behind."""
    plan = _prepare(request)
    environment, redactor = _environment(request, plan.config)
    files = FileLayer()
    with run_directory.disk_errors(plan.directory), run_directory.locked(plan.directory) as lock:
        if plan.directory.path.exists():
            raise OsmosisError(
                f"{plan.directory.path} exists.", code=ErrorCode.CONFLICT, hint="Name the new run differently with --name."
            )
        lock.identify(utc_now())
        try:
            files.make_directory(plan.directory.trials, step="run_directory")
            began = utc_now()
            results = asyncio.run(_grade(plan, environment, redactor, files, milestone))
            return _write(plan, results, files, began)
        except BaseException:
            run_directory.remove(files, plan.directory)
            raise


# ---- before anything is written -------------------------------------------------------------------------------------------


def _prepare(request: RegradeRequest) -> _Plan:
    parent_directory = locate_run(request.run, request.working_directory, request.output)
    parent = read_run(parent_directory)
    if parent.pending or not parent.results:
        raise OsmosisError(
            f"Run {parent.name} is not finished.",
            problems=[Problem(parent.location, f"{parent.pending} of {parent.planned} items have no result in its journal")],
            hint="Finish it first: the command that made it resumes it.",
        )
    config_path = request.config or _config_of(parent, request.working_directory)
    workspace, path = locate_config(config_path, request.working_directory)
    config = decode_config(path.read_bytes(), str(config_path))
    dataset = _dataset(request, parent)
    project = workspace / "rollouts" / config.experiment.rollout
    sources = scan_source_tree(project, parent_directory.output_root)
    identity = DatasetIdentity(dataset.sha256, str(dataset.selected), dataset.fingerprint)
    inputs = msgspec.structs.replace(
        run_inputs(config, identity, sources.digest, parent.manifest.inputs.get("cassette")),
        n=int(parent.manifest.inputs["n"]),
        model_path=parent.model,
        regraded_from=parent.manifest.local_run_id,
    )
    return _Plan(
        parent=parent,
        parent_directory=parent_directory,
        directory=RunDirectory(parent_directory.output_root, validate_name(request.name)),
        config=config,
        project=project,
        dataset=dataset,
        inputs=inputs,
        provenance=Provenance(
            sdk_version=__version__,
            dataset_name=config.experiment.dataset,
            total_dataset_rows=dataset.total_rows,
            config_path=path.relative_to(workspace).as_posix(),
            parent_run_name=parent.name,
            parent_run_id=parent.manifest.local_run_id,
        ),
    )


def _config_of(parent: StoredRun, working_directory: Path) -> Path:
    recorded = parent.manifest.provenance.get("config_path")
    if not isinstance(recorded, str):
        raise OsmosisError(f"Run {parent.name} does not say which config made it.", hint="Name one with --config.")
    return find_workspace(working_directory) / recorded


def _dataset(request: RegradeRequest, parent: StoredRun) -> LoadedDataset:
    path = request.working_directory / request.dataset_file.expanduser()
    dataset = load_dataset_of(parent, path)
    dataset.rows.load()
    return dataset


def _environment(request: RegradeRequest, config: EvalConfig) -> tuple[dict[str, str], Redactor]:
    """The rollout's environment, and what hides its secrets."""
    inherited = dict(os.environ)
    given = request.secrets_file
    file = read_secrets_file(given if given == "-" else str(request.working_directory / given)) if given else ()
    found = resolve_secrets(config.secret_names, file, inherited)
    required = {secret.name: secret.value for secret in found.required}
    configured, other = values_to_redact(found)
    return inherited | config.env | required, Redactor(secret_values(configured, inherited, other))


# ---- grading --------------------------------------------------------------------------------------------------------------


async def _grade(
    plan: _Plan, environment: Mapping[str, str], redactor: Redactor, files: FileLayer, milestone: Callable[[str], None]
) -> dict[WorkItem, Result]:
    with (
        RunLog(plan.directory.log, redactor, files=files) as log,
        tempfile.TemporaryDirectory(prefix="osmosis-regrade-") as stored,
    ):
        milestone(f"syncing rollout dependencies ({plan.config.experiment.rollout})")
        await sync_environment(plan.project, environment, log)
        milestone(f"starting rollout server ({plan.config.experiment.entrypoint})")
        launch = Launch(
            start=Start(plan.project, plan.config.experiment.entrypoint, {**environment, STORED_SAMPLES_ENV: stored}),
            run_directory=plan.directory.path,
            trials=plan.directory.trials,
            created_at=utc_now(),
        )
        server = await RolloutProcess.start(launch, log, files)
        try:
            _require_regrading(server)
            milestone(f"grading {len(plan.parent.results)} stored samples")
            async with RolloutClient(server.url) as client:
                return await _grade_all(plan, client, Path(stored), redactor, server.health.capacity)
        finally:
            await server.stop(_STOP_GRACE_SEC)


def _require_regrading(server: RolloutProcess) -> None:
    if not server.health.regrades:
        raise OsmosisError(
            "The rollout's server cannot grade stored samples.",
            problems=[Problem(f"{server.url}/health", "does not say `regrades`")],
            hint=f"It takes osmosis-ai {__version__} or later in the rollout's environment, and a LocalBackend.",
        )


async def _grade_all(
    plan: _Plan, client: RolloutClient, stored: Path, redactor: Redactor, capacity: int | None
) -> dict[WorkItem, Result]:
    slots = asyncio.Semaphore(min(capacity or _MOST_IN_FLIGHT, _MOST_IN_FLIGHT))

    async def graded(item: WorkItem, parent: Result) -> tuple[WorkItem, Result]:
        async with slots:
            return item, await _grade_one(plan, client, stored, redactor, parent)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(graded(item, result)) for item, result in sorted(plan.parent.results.items())]
    except* OsmosisError as troubles:
        raise troubles.exceptions[0] from None  # the dataset can no longer be read
    except* (AdmissionRefused, ServerUnreachable) as troubles:
        raise OsmosisError(
            f"The rollout server stopped grading: {redactor.text(str(troubles.exceptions[0]))}",
            hint="Correct the grader and run the command again; nothing was written.",
        ) from None
    return dict(task.result() for task in tasks)


async def _grade_one(plan: _Plan, client: RolloutClient, stored: Path, redactor: Redactor, parent: Result) -> Result:
    rollout_id, item, row = uuid.uuid4().hex, parent.item, plan.dataset.rows[parent.item.row_index]
    sample = read_trial_file(plan.parent_directory, parent.rollout_id, SAMPLE_FILE)
    if not sample:
        return ungradable(parent, rollout_id, utc_now())
    (stored / f"{rollout_id}.json").write_bytes(sample)
    _lay_out_artifacts(plan, parent, rollout_id)
    evaluation = plan.config.evaluation
    request = InitRequest(
        initial_messages=row.messages(),
        label=row.label,
        metadata=row.metadata,
        rollout_id=rollout_id,
        chat_completions_url=_NO_MODEL,
        grader_timeout_sec=evaluation.grader_timeout_s,
        extra_fields={"row_index": item.row_index, "run_index": item.run_index},
    )
    began = time.monotonic()
    try:
        async with asyncio.timeout(item_deadline(evaluation.agent_workflow_timeout_s, evaluation.grader_timeout_s)):
            response = await client.run(request)
    except TimeoutError:
        await client.cancel(rollout_id)
        raise ServerUnreachable(f"row {item.row_index} run {item.run_index} did not end in time") from None
    message = response.err_message and redactor.text(response.err_message)
    outcome = classify(msgspec.structs.replace(response, err_message=message))
    if outcome is None:
        raise ServerUnreachable(f"row {item.row_index} run {item.run_index} was cancelled")
    return regraded(parent, outcome, rollout_id, utc_now(), round((time.monotonic() - began) * 1000, 3))


def _lay_out_artifacts(plan: _Plan, parent: Result, rollout_id: str) -> None:
    """Copy what the parent's rollout left, so that a grader finds the files it found then."""
    source = plan.parent_directory.path / "artifacts" / f"row_{parent.item.row_index}_run_{parent.item.run_index}"
    for entry in list_files(source, _MAX_FILE_BYTES):
        if entry.problem is not None:
            continue
        target = plan.directory.trial(rollout_id) / "artifacts" / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.write_bytes(read_file(source, entry.path, _MAX_FILE_BYTES))
        except Unreadable:
            continue


# ---- the new run ----------------------------------------------------------------------------------------------------------


def _write(plan: _Plan, results: Mapping[WorkItem, Result], files: FileLayer, began: str) -> Regraded:
    """Everything of the run, its manifest before its journal, and its projections last."""
    manifest = new_manifest(
        inputs=plan.inputs,
        provenance=plan.provenance,
        local_run_id=uuid.uuid4().hex,
        run_name=plan.directory.name,
        created_at=began,
    )
    sources = scan_source_tree(plan.project, plan.directory.output_root)
    run_directory.create(files, plan.directory, manifest, sources, encode_dataset_rows(plan.dataset.rows))
    # What the journal says of the trials' files must hold after a power cut too.
    files.sync_tree(plan.directory.trials, step="trials")
    files.replace(plan.directory.journal, _journal(began, results, RunEvidence(plan.directory)), step="journal")
    history = read_journal(plan.directory.journal, plan.parent.planned).history
    Projector(files, plan.directory, lambda _: None).finalize(manifest, history)
    return _counted(plan, results)


def _journal(began: str, results: Mapping[WorkItem, Result], evidence: RunEvidence) -> bytes:
    records: list[Record] = [InvocationStarted(uuid.uuid4().hex, began, __version__)]
    records += [Attempt(item, result.rollout_id, 1, began) for item, result in sorted(results.items())]
    in_time: list[Result] = sorted(results.values(), key=lambda result: (result.at, result.item))
    records += in_time
    records.append(InvocationEnded(utc_now(), Ending.FINISHED))
    numbered = enumerate(records, 1)
    return b"".join(encode_record(record, number, evidence.of(record, first=number == 1)) for number, record in numbered)


def _counted(plan: _Plan, results: Mapping[WorkItem, Result]) -> Regraded:
    def passes(found: Mapping[WorkItem, Result], threshold: float) -> int:
        return sum(is_graded(one.status, one.reward) and passed(one.reward, threshold) for one in found.values())

    without = [plan.parent.results[item] for item, one in results.items() if not plan.directory.trial(one.rollout_id).is_dir()]
    carried = sum(parent.status.value == "failed" for parent in without)
    return Regraded(
        run_name=plan.directory.name,
        parent=plan.parent.name,
        path=str(plan.directory.path),
        items=len(results),
        graded=len(results) - len(without),
        carried_over=carried,
        without_sample=len(without) - carried,
        passed_before=passes(plan.parent.results, plan.parent.pass_threshold),
        passed=passes(results, plan.inputs.pass_threshold),
    )

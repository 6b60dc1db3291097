"""`osmosis eval info NAME`: one run, finished or not (issue 9, E40)."""

from __future__ import annotations

from osmosis.pure.errors import OsmosisError
from osmosis.pure.run_overview import RunState, counted_by_journal
from osmosis.pure.sample_details import metric_means
from osmosis.shell.cli.result import DetailResult
from osmosis.shell.cli.run_info_result import Looked, run_info_result
from osmosis.shell.cli.run_options import OutputOption, RunArgument
from osmosis.shell.cli.surroundings import working_directory
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_list import history_of, overview_of
from osmosis.shell.evaluation.run_location import locate_run
from osmosis.shell.evaluation.trial_files import read_details


def eval_info(run: RunArgument, /, *, output: OutputOption = None) -> DetailResult:
    """Show a run. The help text stands in `app`, where it needs no import of this module."""
    directory = working_directory()
    return run_info_result(_look(locate_run(run, directory, output)), str(directory))


def _look(directory: RunDirectory) -> Looked:
    """Everything there is to see; a damaged journal is said and does not hide the rest."""
    overview = overview_of(directory)
    if overview.state is RunState.UNREADABLE:
        raise OsmosisError(
            f"Run {directory.name} cannot be read: {overview.problem}",
            hint="`osmosis eval verify RUN` says what is wrong, and --repair mends what can be mended.",
        )
    try:
        history = history_of(directory, overview)
        if history is None:
            return Looked(overview)
        details = read_details(directory, ((item, result.rollout_id) for item, result in history.results.items()))
        return Looked(counted_by_journal(overview, history), history, means=metric_means(tuple(details.values())))
    except OsmosisError as error:
        return Looked(overview, trouble="; ".join([error.message, *map(str, error.problems)]))

"""The command tree. A command's module is imported only when that command is run or its help is shown.

Commands return a `result.OperationResult` and print nothing. They get the process's `Output` through the parameter that is
marked `INJECTED`, which no flag reaches.
"""

from __future__ import annotations

from typing import Any

from cyclopts import App, Parameter

from osmosis import __version__

INJECTED = Parameter(parse=False)

_NO_CONSOLE: Any = object()
"""Stands where the framework keeps its consoles: it writes nothing here, and real ones would bring rich with them."""

_DOCTOR = """\
Check that everything is ready for a run.

Looks at the workspace, Python, uv, packages, configs, secrets, whether the hosts of the configured models answer, disk, open \
files and clock. Changes nothing without --fix, and overwrites nothing with it."""

_COMPLETION = """\
Print a script that completes commands and options on Tab.

bash: eval "$(osmosis completion bash)" in ~/.bashrc. zsh: osmosis completion zsh > a file _osmosis in a directory of $fpath. \
fish: osmosis completion fish > ~/.config/fish/completions/osmosis.fish."""

_EVAL_RUN = """\
Run an evaluation on this machine.

Runs every selected dataset row through the rollout of CONFIG, grades the results, and writes metrics, trajectories and logs \
to .osmosis/evals/NAME. A run survives interruption: the same command with --name NAME resumes it."""

_EVAL_VERIFY = """\
Audit a run directory.

Checks that journal, manifest, trials, index, metrics, trajectories and artifacts tell one story, and says what does not. RUN \
is a name below .osmosis/evals or the path of a run directory. --repair rebuilds what follows from the journal and cuts off a \
torn last record; what it replaces is kept beside, and manifest, journal and trials are never rewritten."""


_EVAL_COMPARE = """\
Compare runs on the same rows.

Pairs the rows of each candidate with those of the baseline and shows by how much pass rate, reward, tokens, latency and cost \
differ, how sure that is, and which rows changed. A run is a name below .osmosis/evals or the path of a run directory."""

_EVAL_GATE = """\
Judge whether a run falls behind a baseline.

Exits with 0 when the drop is surely within --max-drop, with 4 when it is surely beyond, and with 5 when the data cannot \
tell."""

_EVAL_EXPORT = """\
Export a run for other tools.

Writes its samples as Parquet, CSV or JSON lines, its outcome as JUnit XML, or a summary and annotations for GitHub Actions."""

_EVAL_REPORT = """\
Write a run as one HTML page.

Summary, charts, failures and every sample with its trajectory, in a file that needs no network. --baseline adds a comparison \
with another run. `osmosis eval open RUN` shows it."""

_EVAL_REGRADE = """\
Grade the stored samples of a run with the grader as it is now.

Runs the grader of the rollout in its own environment, over the samples that RUN stored, and writes a new run that names RUN \
as its parent. No workflow runs and no model is asked. The new run is all there or not there."""

_EVAL_LIST = """\
List the runs of this workspace, newest first.

Finished, interrupted and running ones, with how far they are. Runs that --fresh moved aside are left out."""

_EVAL_INFO = """\
Show a run: how far it is, its numbers, its failures.

RUN is a name below .osmosis/evals or the path of a run directory. The numbers of a run that is not finished are counted by \
its journal: what it says is durable."""

_EVAL_LOGS = """\
Show the log of a run.

Prints the newest page, its lines in order. --cursor with the next_cursor of a page shows the lines before it; --follow goes \
on with what a run writes, until it has ended."""

_EVAL_OPEN = """\
Open a run in the desktop's program for it.

Opens its HTML report if `osmosis eval report` wrote one, else its directory. Where there is no screen, says where it is."""

_EVAL_RUBRIC = """\
Judge texts by a rubric with a model.

Reads JSON lines (conversations, or texts), has a model score each of them, and reports scores, agreement of repeated \
judgements and, where records have a human_score, how close the judge is to people. Needs no workspace. With --output, \
judgements are kept in a journal beside it as they arrive, and --resume goes on from there."""


_ROLLOUT_INIT = """\
Write a new rollout that works as it is.

Puts rollouts/NAME with its entrypoint, pyproject.toml and README into the workspace, an eval and a training config, and a \
small dataset. From a source checkout of osmosis the rollout uses that checkout."""

_ROLLOUT_VALIDATE = """\
Try a rollout out, with no key and no model.

Installs the environment of rollouts/NAME, imports its entrypoint there, starts its server, and runs one row against a stub \
model. The score of that row means nothing; that there is one does."""

_SERVE_LOOP = """\
Serve an agent loop to a trainer.

Runs the RolloutAgentLoop at MODULE:ATTRIBUTE as an HTTP server until it is interrupted. Trainers must send the key; \
without one a new key is made and shown. Nothing is registered anywhere."""

_VALIDATE_LOOP = """\
Check whether an agent loop can be served.

Loads the RolloutAgentLoop at MODULE:ATTRIBUTE and looks at its name, its tools and its run method."""


_CASSETTE_INSPECT = """\
Show what a cassette holds.

A cassette is the file that `osmosis eval run --record` writes."""

_CASSETTE_PRUNE = """\
Keep a part of a cassette.

Writes the calls that are kept in sorted form, all or nothing, over FILE or to --output. A run that records into the file \
keeps it locked."""

_CASSETTE_DIFF = """\
Say which recorded calls of two cassettes differ.

Compares what a replay hears: calls of the same row, run, request and repeat, and their answers."""


def build_app() -> App:
    """The tree of all commands. `help_page` lays its help out."""
    app = App(
        name="osmosis",
        help="Evaluate LLM agents on this machine.",
        help_format="plaintext",
        version=f"osmosis-ai {__version__}",
        version_flags=("--version", "-V"),
        console=_NO_CONSOLE,
        error_console=_NO_CONSOLE,
        default_parameter=Parameter(negative=(), show_default=False, negative_iterable=()),
    )
    app.command("osmosis.shell.cli.doctor:doctor", name="doctor", help=_DOCTOR)
    app.command("osmosis.shell.cli.completion:completion", name="completion", help=_COMPLETION)
    evaluation = App(name="eval", help="Run evaluations and look at their results.", version_flags=())
    evaluation.command("osmosis.shell.cli.eval_run:eval_run", name="run", help=_EVAL_RUN)
    evaluation.command("osmosis.shell.cli.eval_list:eval_list", name="list", help=_EVAL_LIST)
    evaluation.command("osmosis.shell.cli.eval_info:eval_info", name="info", help=_EVAL_INFO)
    evaluation.command("osmosis.shell.cli.eval_logs:eval_logs", name="logs", help=_EVAL_LOGS)
    evaluation.command("osmosis.shell.cli.eval_open:eval_open", name="open", help=_EVAL_OPEN)
    evaluation.command("osmosis.shell.cli.eval_rubric:eval_rubric", name="rubric", help=_EVAL_RUBRIC)
    evaluation.command("osmosis.shell.cli.eval_verify:eval_verify", name="verify", help=_EVAL_VERIFY)
    evaluation.command(
        "osmosis.shell.cli.eval_compare:eval_compare",
        name="compare",
        help=_EVAL_COMPARE,
        usage="osmosis eval compare [OPTIONS] BASELINE CANDIDATES...",
    )
    evaluation.command("osmosis.shell.cli.eval_gate:eval_gate", name="gate", help=_EVAL_GATE)
    evaluation.command("osmosis.shell.cli.eval_export:eval_export", name="export", help=_EVAL_EXPORT)
    evaluation.command("osmosis.shell.cli.eval_report:eval_report", name="report", help=_EVAL_REPORT)
    evaluation.command("osmosis.shell.cli.eval_regrade:eval_regrade", name="regrade", help=_EVAL_REGRADE)
    app.command(evaluation)
    rollout = App(name="rollout", help="Write and serve rollouts.", version_flags=())
    rollout.command("osmosis.shell.cli.rollout_init:rollout_init", name="init", help=_ROLLOUT_INIT)
    rollout.command("osmosis.shell.cli.rollout_validate:rollout_validate", name="validate", help=_ROLLOUT_VALIDATE)
    rollout.command("osmosis.shell.cli.rollout_serve_loop:rollout_serve_loop", name="serve-loop", help=_SERVE_LOOP)
    rollout.command("osmosis.shell.cli.rollout_validate_loop:rollout_validate_loop", name="validate-loop", help=_VALIDATE_LOOP)
    app.command(rollout)
    cassette = App(name="cassette", help="Look at recorded model calls.", version_flags=())
    cassette.command("osmosis.shell.cli.cassette:cassette_inspect", name="inspect", help=_CASSETTE_INSPECT)
    cassette.command("osmosis.shell.cli.cassette:cassette_prune", name="prune", help=_CASSETTE_PRUNE)
    cassette.command("osmosis.shell.cli.cassette:cassette_diff", name="diff", help=_CASSETTE_DIFF)
    app.command(cassette)
    return app

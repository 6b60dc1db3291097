"""A good outcome of every command as a record, and those bad ones that no command line alone brings about."""

from __future__ import annotations

from collections.abc import Mapping

from osmosis.pure.agreement import Agreement, spread
from osmosis.pure.cassette import CallKey, Cassette, Header, RecordedCall
from osmosis.pure.cassette_report import compare, pruned
from osmosis.pure.errors import OsmosisError
from osmosis.pure.judge_usage import JudgeUsage
from osmosis.pure.report import RunStatus
from osmosis.pure.rollout_check import Check, CheckStatus, RolloutCheck
from osmosis.pure.rubric_report import RecordResult, RubricReport, RubricStatus
from osmosis.pure.scaffold import ScaffoldReport
from osmosis.pure.usage import CallUsage
from osmosis.shell.cli.cassette_result import diff_result, inspect_result, prune_result
from osmosis.shell.cli.completion import completion_result
from osmosis.shell.cli.doctor_result import doctor_error
from osmosis.shell.cli.eval_rubric import failure as rubric_failure
from osmosis.shell.cli.eval_rubric import result as rubric_result
from osmosis.shell.cli.result import CommandResult
from osmosis.shell.cli.rollout_init import scaffold_result
from osmosis.shell.cli.rollout_serve_loop import ServeLoopResource, serve_loop_result
from osmosis.shell.cli.rollout_validate import check_result
from osmosis.shell.cli.rollout_validate_loop import Issue, ValidateLoopResource, validate_loop_result
from osmosis.shell.cli.run_result import run_result
from osmosis.shell.judge.request import RubricRequest
from tests.strategies.cli_records import RESULTS, WORRIED
from tests.strategies.cli_reports import REPORTS, WORKSPACE, report

HOSTILE = "\x1b[31mred\x1b[0m sk-live-0123456789 [bold]\u202etxt"


def recorded(row: int, run: int, *, status: int = 200, body: str = "x") -> RecordedCall:
    """A recorded call."""
    return RecordedCall(CallKey(row, run, f"xxh3-128:v1:{row:032x}", 0), {"q": row}, status, body, usage=CallUsage(1, 2, 3))


def cassette(*calls: RecordedCall) -> Cassette:
    """A cassette of these calls."""
    header = Header("openai/m", "https://api.example.test/v1", "2026-11-30T12:00:00Z")
    return Cassette(header, {call.key: call for call in calls})


FIRST = cassette(*(recorded(row, run, status=400 if row == 2 else 200) for row in range(12) for run in range(2)))
SECOND = cassette(recorded(0, 0), recorded(1, 0, body="y"), recorded(99, 0))
PART = pruned(FIRST, rows=(0, 2).__contains__, runs=1)

CHECKS = (
    Check("environment", CheckStatus.PASSED, "osmosis-ai 0.3.10"),
    Check("import", CheckStatus.PASSED),
    Check("server", CheckStatus.PASSED, "healthy after 0.8s"),
    Check("row", CheckStatus.PASSED, "reward 0, 1 model call"),
)


def checked(*checks: Check) -> CommandResult:
    """What `rollout validate` shows of these checks."""
    found = RolloutCheck("sums", WORKSPACE, f"{WORKSPACE}/rollouts/sums", "main.py", checks, "0.3.10", 1)
    return check_result(found, WORKSPACE, None)


def judged(status: RubricStatus, *errors: str) -> RubricReport:
    """Two records of two judgements each; `errors` are those of the second."""
    scores = (0.5, 1.0)[len(errors) :]
    return RubricReport(
        status=status,
        model="openai/gpt-5-mini",
        rubric="Is it right?",
        data_path="conversations.jsonl",
        number=2,
        records=(
            RecordResult(1, HOSTILE, (0.75, 0.75), ("exact\nand short", HOSTILE), (), spread((0.75, 0.75))),
            RecordResult(2, "record[2]", scores, ("half",) * len(scores), errors, spread(scores)),
        ),
        statistics=spread((0.75, 0.75, *scores)),
        agreement=Agreement(compared=2, krippendorff_alpha=0.25, mean_stdev=0.125, max_stdev=0.25, max_range=0.5),
        calibration=None,
        usage=JudgeUsage(calls=4, prompt_tokens=100, completion_tokens=20, total_tokens=120, cost_usd=0.0012),
        error_count=len(errors),
        pending=0,
        resumed=1,
        output_path=None if not errors else f"{WORKSPACE}/result.json",
    )


REQUEST = RubricRequest(data="conversations.jsonl", rubric="Is it right?", model="openai/gpt-5-mini", number=2)  # type: ignore[arg-type]

SUCCEEDED: Mapping[str, CommandResult] = {
    "doctor": RESULTS["doctor"],
    "completion": completion_result("bash", '_osmosis() {\n\tCOMPREPLY=( "eval" )\n}\ncomplete -F _osmosis osmosis\n'),
    "eval run": run_result(report(RunStatus.SUCCESS), WORKSPACE),
    "eval list": RESULTS["list"],
    "eval info": RESULTS["info_finished"],
    "eval logs": RESULTS["logs"],
    "eval open": RESULTS["open"],
    "eval rubric": rubric_result(judged(RubricStatus.SUCCESS), REQUEST),
    "rollout init": scaffold_result(
        ScaffoldReport(
            name="sums",
            workspace_directory=WORKSPACE,
            rollout_directory=f"{WORKSPACE}/rollouts/sums",
            configs={
                "eval": f"{WORKSPACE}/configs/eval/sums.toml",
                "training": f"{WORKSPACE}/configs/training/sums.toml",
            },
            dataset=f"{WORKSPACE}/data/sums.jsonl",
            files=tuple(
                f"{WORKSPACE}/{path}"
                for path in (
                    "configs/eval/sums.toml",
                    "configs/training/sums.toml",
                    "data/sums.jsonl",
                    "rollouts/sums/README.md",
                    "rollouts/sums/main.py",
                    "rollouts/sums/pyproject.toml",
                )
            ),
            replaced=(),
        ),
        WORKSPACE,
    ),
    "rollout validate": checked(*CHECKS),
    "rollout serve-loop": serve_loop_result(ServeLoopResource("agent:Echo", "echo", "127.0.0.1", 9000)),
    "rollout validate-loop": validate_loop_result(
        ValidateLoopResource(
            "agent:Echo",
            "echo",
            1,
            (),
            (Issue("MISSING_FUNCTION_DESCRIPTION", "tools[0].function.description", f"Tool {HOSTILE} has no description"),),
        )
    ),
    "cassette inspect": inspect_result(f"{WORKSPACE}/first.jsonl", FIRST),
    "cassette prune": prune_result(
        f"{WORKSPACE}/first.jsonl", f"{WORKSPACE}/part.jsonl", PART, len(FIRST.calls) - len(PART.calls), WORKSPACE
    ),
    "cassette diff": diff_result(f"{WORKSPACE}/first.jsonl", f"{WORKSPACE}/second.jsonl", compare(FIRST, SECOND)),
}
"""By command. Those that compare and convert stored runs need frames and stand in `tests.golden.test_cli_commands`."""

FAILED: Mapping[str, CommandResult | OsmosisError] = {
    "doctor": doctor_error(WORRIED, ()),
    "eval run": run_result(REPORTS["halted"], WORKSPACE),
    "eval rubric": rubric_failure(judged(RubricStatus.PARTIAL, f"the judge said {HOSTILE}\nand no more")),
    "rollout validate": checked(
        CHECKS[0],
        Check("import", CheckStatus.FAILED, f"Traceback:\n  ModuleNotFoundError: No module named 'strands' {HOSTILE}"),
    ),
}
"""By command: what depends on the machine, on a model or on a rollout's environment."""

"""What being cut short explains about the projections of a run, and what it does not; advice on what nothing mends."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.advice import advice_on
from osmosis.pure.artifacts import EntryKind
from osmosis.pure.audit import OWN_FILES, SERVER, TUNNEL
from osmosis.pure.finding import FileFact, Finding, Remedy, Severity
from osmosis.pure.pending import PENDING, excused, is_cut_short
from osmosis.pure.projection_audit import INDEX, METRICS, PROGRESS, PROJECTIONS, SUMMARY, Rebuilt, stem_of

ROLLOUTS = tuple(f"{number:032x}" for number in range(4))


def line(rollout_id: str, reward: float, *, resumed: bool = False) -> bytes:
    """A line of an index."""
    mark = ', "resumed": true' if resumed else ""
    return f'{{"rollout_id": "{rollout_id}", "reward": {reward}{mark}}}'.encode()


def a_file(content: bytes) -> FileFact:
    """A projection that holds this."""
    return FileFact(EntryKind.FILE, content=content)


def is_excused(path: str, there: FileFact | None, due: bytes | None, retried: set[str] | None = None) -> bool:
    """Whether an error about the file at `path` becomes a warning."""
    rebuilt = None if due is None else Rebuilt("x", due)
    found = excused(Finding(path, "is wrong", 3, remedy=Remedy.REBUILD), there, rebuilt, set(ROLLOUTS), retried or set())
    assert found.remedy is Remedy.REBUILD
    assert (found.what == PENDING) == (found.severity is Severity.WARNING)
    return found.severity is Severity.WARNING


subsets = st.lists(st.sampled_from(ROLLOUTS), unique=True)


@given(subsets, st.booleans(), st.integers(0, 80), st.sampled_from([INDEX, SUMMARY]))
def test_any_part_of_an_index_in_any_order_is_one_that_grew(grown: list[str], resumed: bool, torn: int, path: str) -> None:
    """Lines that are due, some of them, in the order of completion, the last one cut: that is what a killed run leaves."""
    due = b"".join(line(rollout, 1.0, resumed=resumed) + b"\n" for rollout in ROLLOUTS)
    there = b"".join(line(rollout, 1.0) + b"\n" for rollout in grown) + line(ROLLOUTS[0], 1.0)[:torn]
    assert is_excused(path, a_file(there), due)


@given(subsets, st.binary(min_size=1, max_size=9), st.integers(0, 5))
def test_an_index_with_anything_else_in_it_is_damaged(grown: list[str], odd: bytes, place: int) -> None:
    """A value that is not due, a rollout that the journal does not know, or no line at all."""
    due = b"".join(line(rollout, 1.0) + b"\n" for rollout in ROLLOUTS)
    lines = [line(rollout, 1.0) for rollout in grown]
    for wrong in (line(ROLLOUTS[1], 0.5), line("f" * 32, 1.0), b"\x00" + odd.replace(b"\n", b"")):
        there = b"".join(one + b"\n" for one in [*lines[:place], wrong, *lines[place:]])
        assert not is_excused(INDEX, a_file(there), due)


def test_what_is_missing_is_still_to_be_written() -> None:
    """Whatever it is; what stands in its place as a link or a directory is not."""
    for path in (*PROJECTIONS, "trajectories/row_0_run_0.json", "artifacts/row_0_run_0/a"):
        assert is_excused(path, None, b"x")
        assert not is_excused(path, FileFact(EntryKind.SYMLINK), b"x")
        assert not is_excused(path, FileFact(EntryKind.FILE, trouble="is not readable"), b"x")


def test_copies_may_be_those_of_an_earlier_attempt() -> None:
    """Of an item that ran again, and of no other."""
    for path in ("trajectories/row_0_run_0.json", "artifacts/row_0_run_0/a/b.txt"):
        assert stem_of(path) == "row_0_run_0"
        assert is_excused(path, a_file(b"old"), b"new", {"row_0_run_0"})
        assert not is_excused(path, a_file(b"old"), b"new", {"row_0_run_1"})
    assert not is_excused(PROGRESS, a_file(b"old"), b"new", {"row_0_run_0"}), "the plan never changes"


def metrics(status: str, **more: object) -> bytes:
    """A metrics file."""
    run = dict.fromkeys(("id", "name", "dataset_name", "model_name", "rollout_name", "started_at"), "x")
    summary: dict[str, object] = dict.fromkeys(
        ("total_samples", "completed_samples", "graded", "passed", "failed", "skipped", "pass_rate", "tokens_used"), 0
    )
    return json.dumps(
        {"eval_run": run | {"status": status, "duration_ms": 0.0}, "summary": summary | {"pass_threshold": 1.0} | more}
    ).encode()


COUNTS = dict.fromkeys(("planned", "success", "failed", "skipped", "pending", "graded", "ungraded"), 0)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (metrics("running"), True),
        (metrics("finished"), False),
        (metrics("incomplete"), False),
        (metrics("running", counts=COUNTS), False),
        (b"{", False),
    ],
)
def test_metrics_tell_whether_a_run_was_cut_short(content: bytes, expected: bool) -> None:
    """`running` with counts alone is written when an invocation begins; anything else is an end, or damage."""
    assert is_cut_short({METRICS: a_file(content)}, 5) == expected


def test_a_run_that_never_began_has_everything_to_write() -> None:
    """No metrics and no record is a run that was killed at once; no metrics but records is one that lost them."""
    assert is_cut_short({}, 0)
    assert not is_cut_short({}, 1)


TRIAL = "rollout_trials/" + "a" * 32


@pytest.mark.parametrize(
    "path",
    [
        *(path for path in OWN_FILES if path not in (*PROJECTIONS, SERVER, TUNNEL)),
        *(f"{TRIAL}/{name}" for name in ("trajectory.json", "sample.json", "artifacts/a", "diagnostics.json")),
        TRIAL,
        "rollout_trials",
        "data.jsonl",
    ],
)
def test_whatever_nothing_mends_comes_with_advice(path: str) -> None:
    """One sentence a kind of file, however many findings; none for a warning or for what can be repaired."""
    finding = Finding(path, "is wrong")
    dataset = "data.jsonl" if path == "data.jsonl" else None
    (sentence,) = advice_on([finding, finding], dataset)
    assert sentence.endswith(".")
    assert advice_on([Finding(path, "is wrong", remedy=Remedy.RESTORE)], dataset) == ()
    assert advice_on([Finding(path, "is wrong", severity=Severity.WARNING)], dataset) == ()

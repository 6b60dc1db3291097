"""The benchmarks count what they say they count, and no figure of their README was copied by hand (issue 6)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.measuring import Finding, at_least, at_most, in_turn, ratios, run
from benchmarks.record import BEGIN, END, README, Entry, read_record, with_tables
from tests.integration.workspaces import alive

SPEND = "import time\nwhile time.process_time() < {seconds}: pass\n"


def measured(place: Path, program: str):
    """A Python that runs `program`, from outside."""
    return run([sys.executable, "-c", program], place, {}, place / "log")


def test_processor_time_of_a_process_and_of_its_tree(tmp_path: Path) -> None:
    """What children spend is the tree's and not the command's; what the command says and how it ended is kept."""
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPEND.format(seconds=0.3)!r}])"
    cost = measured(tmp_path, f"{child}\nprint('said')\nsys.exit(7)")
    assert (cost.code, cost.output, cost.left) == (7, "said\n", 0)
    assert cost.tree_cpu >= 0.3
    assert cost.cpu < cost.tree_cpu - 0.25
    assert cost.wall >= 0.3
    assert cost.peak > 1_000_000


def test_whoever_is_left_behind_is_ended_and_counted(tmp_path: Path) -> None:
    """A command that leaves its work to an orphan gains nothing: the orphan's time counts, and it lives no longer."""
    # It has worked before the command ends, and ends when it is alone: how long either takes decides nothing.
    orphan = SPEND.format(seconds=0.3) + "import os, sys; open('pid', 'w').write(str(os.getpid())); print(flush=True)"
    spawn = (
        "import subprocess, sys; pipe = subprocess.PIPE; "
        "subprocess.Popen([sys.executable, '-c', {program!r}], start_new_session=True, stdin=pipe, stdout=pipe)"
        ".stdout.readline()"
    )
    cost = measured(tmp_path, spawn.format(program=f"{orphan}; sys.stdin.read()"))
    assert (cost.code, cost.left) == (0, 1)
    assert cost.tree_cpu >= 0.3
    assert not alive(int((tmp_path / "pid").read_text()))


def test_written_bytes_are_those_of_the_whole_tree(tmp_path: Path) -> None:
    """What a child writes to the disk is counted."""
    write = "open('big', 'wb').write(bytes(5_000_000))"
    cost = measured(tmp_path, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {write!r}])")
    assert cost.written >= 5_000_000


def test_the_middle_round_judges() -> None:
    """One round that was disturbed decides nothing; a bar that is reached exactly is met."""
    assert at_most("x", [1.0, 9.0, 2.0], 2.0, "s").met
    assert not at_most("x", [3.0, 9.0, 2.0], 2.0, "s").met
    assert at_least("x", [1.0, 9.0, 2.0], 2.0, "s").met
    assert ratios([1.0, 6.0], [2.0, 3.0]) == [0.5, 2.0]


def test_another_side_begins_each_round() -> None:
    """No side always runs after the same other, or always on a cold machine."""
    assert [in_turn("abc", number) for number in range(4)] == [list("abc"), list("bca"), list("cab"), list("abc")]


def test_the_tables_of_the_readme_are_made_of_the_findings() -> None:
    """The README shows exactly what `findings.json` holds."""
    assert with_tables(README.read_text(), read_record()) == README.read_text()


def test_a_table_tells_the_load_the_spread_and_what_was_missed() -> None:
    """A reader sees under what load figures came about, how far they spread, and which bar was missed."""
    found = (Finding("start", 0.2, "s", "at most 0.125", False, 0.1, 0.3, (0.1, 0.2, 0.3)),)
    entry = Entry("2026-11-30 12:00 UTC", "abc", "3.11.7", 2, 1.5, 0.25, 3, found)
    text = with_tables(f"before\n{BEGIN}old figures\n{END}after\n", {"runs": entry})
    assert "old figures" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "load 1.5 at the start, other work on 0.2 cores" in text
    assert "| start | 0.2 s | 0.1 to 0.3 | at most 0.125 | **missed** |" in text
    assert with_tables(text, {"runs": entry}) == text


def test_a_readme_without_marks_is_not_written_over() -> None:
    """Whoever loses a mark is told, and loses no text."""
    with pytest.raises(ValueError, match="marks"):
        with_tables(f"text\n{END}", {})


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_there_and_in_the_readme(name: str) -> None:
    """`just bench NAME` finds a module, and the README says what it measures."""
    assert (README.parent / f"{BENCHMARKS[name][0]}.py").exists()
    assert f"| `{name}` |" in README.read_text()

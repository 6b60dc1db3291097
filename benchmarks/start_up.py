"""What a command costs before it does anything: `osmosis --version` and `osmosis eval run --help`, beside the public command's.

Both commands take turns, each once for nothing, so that byte code and page cache are warm for all. Figures are processor time
of the whole tree, as the kernel accounts for it. The public package runs on Python 3.12 and ours on the Python of this
environment; what a Python costs that does nothing is told for both.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.measuring import Finding, Options, at_most, in_turn, ratios, run, told
from benchmarks.run_workspace import PUBLIC, make_public_environment

ROUNDS_FOR_ONE = 5
"""Turns for each round that was asked for: one takes a fraction of a second."""

LINES = {"--version": ("--version",), "eval run --help": ("eval", "run", "--help")}
BARS_MS = {"--version": 60.0, "eval run --help": 300.0}
SHARE = 0.6
"""Of the public command's help (issue 9)."""


class Side(msgspec.Struct):
    """One package's commands, and the milliseconds of processor time that each turn of a line took."""

    name: str
    command: Path
    python: Path
    turns: dict[str, list[float]]

    def turn(self, place: Path) -> None:
        """Each line once, and a Python that does nothing."""
        for line, words in {**LINES, "python": ()}.items():
            command = [str(self.command), *words] if words else [str(self.python), "-c", ""]
            cost = run(command, place, _environment(place), place / "output.log")
            if cost.code != 0 or (words and not cost.output.strip()):
                raise RuntimeError(f"{self.name}: {' '.join(command)} ended with {cost.code}:\n{cost.output[-2000:]}")
            self.turns.setdefault(line, []).append(1000 * cost.tree_cpu)


def measure(options: Options) -> list[Finding]:
    """Our commands, and the public ones where they can be installed."""
    ours = _side("ours", Path(sys.executable).parent)
    sides = [ours]
    make_public_environment()
    if (PUBLIC / "osmosis").exists():
        sides.append(_side("public", PUBLIC))
    with tempfile.TemporaryDirectory(prefix="osmosis-bench-") as directory:
        place = Path(directory)
        for side in sides:
            side.turn(place)
            side.turns.clear()
        for number in range(options.rounds * ROUNDS_FOR_ONE):
            for side in in_turn(sides, number):
                side.turn(place)
    return _findings(ours, sides[1:])


def _side(name: str, directory: Path) -> Side:
    return Side(name, directory / "osmosis", directory / "python", {})


def _findings(ours: Side, others: Sequence[Side]) -> list[Finding]:
    findings = [at_most(f"{line}: CPU", ours.turns[line], bar, "ms") for line, bar in BARS_MS.items()]
    for other in others:
        shares = {line: ratios(ours.turns[line], other.turns[line]) for line in LINES}
        findings.append(at_most("eval run --help: CPU, of the public command's", shares["eval run --help"], SHARE, ""))
        findings.append(told("--version: CPU, of the public command's", shares["--version"], ""))
        findings += [told(f"{line}: CPU ({other.name})", other.turns[line], "ms") for line in LINES]
    idle = [told(f"a Python that does nothing: CPU ({side.name})", side.turns["python"], "ms") for side in (ours, *others)]
    return [*findings, *idle]


def _environment(place: Path) -> dict[str, str]:
    """Nothing of the caller's: no configuration, no proxy, no network that a command would ask."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(place), "LANG": "C.UTF-8", "TERM": "dumb"}

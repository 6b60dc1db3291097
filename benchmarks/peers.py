"""Whole commands beside those of other packages: 400 and 2,000 trivial items, 64 in flight, one stub model (issue 6).

Every command is a process tree of its own, from its start to its exit. The time of the whole command and the processor time of
the whole tree are measured from outside; the difference between 2,000 and 400 items is what one further item takes. All are
warm: each has run once before. The model counts its calls, so that nobody answers from a cache.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.measuring import Finding, Measured, Options, at_most, in_turn, ratios, run, scratch, told
from benchmarks.peer_commands import Peer, every_peer
from benchmarks.stub_model import StubModel, stub_model

ITEMS, MANY = 400, 2000
ROOT = Path(__file__).resolve().parent.parent
FASTER_THAN = ("promptfoo", "promptfoo, no database")
"""Whose whole command must take longer than ours."""


class Turn(msgspec.Struct, frozen=True):
    """One peer's runs of one round."""

    items: Measured
    many: Measured

    @property
    def further(self) -> float:
        """Milliseconds of processor time for each further item."""
        return 1000 * (self.many.tree_cpu - self.items.tree_cpu) / (MANY - ITEMS)


def measure(options: Options) -> list[Finding]:
    """Everybody's turns, and ours beside each."""
    made = subprocess.run([sys.executable, str(ROOT / "scripts" / "peers_env.py")], check=False, stdout=sys.stderr)
    if made.returncode != 0:
        print("not every peer can be installed here: those are left out", file=sys.stderr)
    with stub_model() as model:
        root = scratch()
        peers = every_peer(root, model.url)
        turns: dict[str, list[Turn]] = {peer.name: [] for peer in peers}
        for peer in peers:
            _run(peer, 1, model)
        for number in range(options.rounds):
            for peer in in_turn(peers, number):
                if peer.rounds is None or number < peer.rounds:
                    turns[peer.name].append(Turn(_run(peer, ITEMS, model), _run(peer, MANY, model)))
        return list(_findings(turns))


def _run(peer: Peer, items: int, model: StubModel) -> Measured:
    cost = run(peer.words(items), peer.root, peer.environment, peer.root / "output.log")
    calls = model.marks().calls
    if cost.code != 0 or calls != items:
        said = f"{peer.name}: exit code {cost.code}, {calls} model calls for {items} items"
        raise RuntimeError(f"{said}\n{cost.output[-4000:]}")
    return cost


def _findings(turns: dict[str, list[Turn]]) -> Iterator[Finding]:
    for name, found in turns.items():
        yield told(f"whole command, {ITEMS} items: {name}", [turn.items.wall for turn in found], "s")
    for name, found in turns.items():
        yield told(f"whole command, {MANY} items: {name}", [turn.many.wall for turn in found], "s")
    for name, found in turns.items():
        yield told(f"tree CPU, {ITEMS} items: {name}", [turn.items.tree_cpu for turn in found], "s")
    yield at_most("tree CPU a further item: ours", [turn.further for turn in turns["ours"]], 4.0, "ms")
    for name, found in turns.items():
        if name != "ours":
            yield told(f"tree CPU a further item: {name}", [turn.further for turn in found], "ms")
    for name, found in turns.items():
        if name != "ours":
            yield from _beside(turns["ours"], name, found)


def _beside(ours: list[Turn], name: str, theirs: list[Turn]) -> Iterator[Finding]:
    mine = ours[: len(theirs)]
    whole = ratios([turn.items.wall for turn in mine], [turn.items.wall for turn in theirs])
    words = f"whole command, {ITEMS} items, of {name}'s" if name in FASTER_THAN else f"whole command, of {name}'s"
    yield at_most(words, whole, 1.0, "") if name in FASTER_THAN else told(words, whole, "")
    spent = ratios([turn.items.tree_cpu for turn in mine], [turn.items.tree_cpu for turn in theirs])
    yield told(f"tree CPU, {ITEMS} items, of {name}'s", spent, "")
    many = ratios([turn.many.wall for turn in mine], [turn.many.wall for turn in theirs])
    yield told(f"whole command, {MANY} items, of {name}'s", many, "")
    further = ratios([turn.further for turn in mine], [turn.further for turn in theirs])
    yield told(f"tree CPU a further item, of {name}'s", further, "")

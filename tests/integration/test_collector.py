"""The cyclic garbage collector while a run goes on (decision 0062)."""

from __future__ import annotations

import gc

import pytest

from osmosis.shell.evaluation.collector import settled_garbage


def test_what_exists_is_let_be_and_comes_back_afterwards() -> None:
    """Also when the run ends badly: the process that called it has its collector as before."""
    thresholds, inside = gc.get_threshold(), []

    def run() -> None:
        with settled_garbage():
            inside.append((gc.get_freeze_count(), gc.get_threshold()))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    ((frozen, quieter),) = inside
    assert frozen > 0
    assert quieter[0] > thresholds[0]
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == thresholds


def test_cycles_that_an_item_leaves_are_still_found() -> None:
    """Less often is not never."""

    class Knot:
        gone = 0

        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            Knot.gone += 1

    with settled_garbage():
        for _ in range(100_000):
            Knot()
        assert Knot.gone > 50_000

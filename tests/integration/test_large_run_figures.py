"""The figures of the run of 100,000 items compare like with like (issue 6)."""

from __future__ import annotations

from benchmarks.after_kill import Killed
from benchmarks.large_run import Look, fifth, pace, per_item


def test_fifths_hold_the_items_that_they_name() -> None:
    """From the first look at results to the last look within; waiting for the server, and the end, belong to none."""
    looks = [Look(0.0, 0, 0.5, 1), Look(5.0, 0, 1.0, 1)]
    looks += [Look(5.0 + second, 10 * second, 1.0 + second / 100, 1) for second in range(1, 11)]
    looks.append(Look(60.0, 100, 2.0, 1))
    first, last = fifth(looks, 100, 0), fifth(looks, 100, 4)
    assert [look.results for look in (*first, *last)] == [10, 20, 80, 90]
    assert pace(first) == pace(last) == 10.0
    assert round(per_item(first), 6) == round(per_item(last), 6) == 0.001


def test_calls_without_a_durable_result_were_in_flight() -> None:
    """What may be asked again is what was asked and not kept."""
    assert Killed(called=70, durable=20, repeated=50, needless=0).in_flight == 50

"""The window of calls in flight: bounded, halved by refusals, always recovering (issue "bridge")."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.concurrency import BURST_SECONDS, START, answered, begin, descriptor_ceiling, refused, waited

ceilings = st.integers(-5, 2000)
steps = st.lists(st.sampled_from(["answered", "idle", "waited", "refused"]), max_size=80)


def walk(ceiling, history):
    """The window after a history of events, a second and a half apart."""
    window, now = begin(ceiling), 0.0
    for step in history:
        now += 1.5 * BURST_SECONDS
        match step:
            case "answered":
                window = answered(window, window.limit)
            case "idle":
                window = answered(window, window.limit - 1)
            case "waited":
                window = waited(window)
            case "refused":
                window = refused(window, now)
    return window, now


@given(ceilings, steps)
def test_it_stays_between_one_and_its_ceiling(ceiling, history):
    """Whatever happens, at least one call and at most the ceiling may be out; it starts low."""
    assert begin(ceiling).limit == max(1, min(START, ceiling))
    window, _ = walk(ceiling, history)
    assert 1 <= window.limit <= max(1, ceiling)


@given(st.integers(1, 300), steps)
def test_it_always_recovers(ceiling, history):
    """However often it was cut, enough healthy answers bring it back to its ceiling."""
    window, _ = walk(ceiling, history)
    for _ in range(ceiling * (ceiling + 2)):
        if window.limit == ceiling:
            break
        window = answered(window, window.limit)
    assert window.limit == ceiling


@given(st.integers(2, 2000), steps)
def test_a_refusal_halves_and_a_burst_counts_once(ceiling, history):
    """One 429 halves the window; those that follow at once change nothing; one that comes later halves again."""
    window, now = walk(ceiling, history)
    later = now + 1.5 * BURST_SECONDS
    cut = refused(window, later)
    assert cut.size == max(1.0, window.size / 2)
    assert refused(cut, later + BURST_SECONDS / 2) == cut
    assert refused(cut, later + 2 * BURST_SECONDS).size == max(1.0, cut.size / 2)


@given(st.integers(1, 2000), steps)
def test_only_a_full_window_grows(ceiling, history):
    """Answers to a load below the limit say nothing about what more would do."""
    window, _ = walk(ceiling, history)
    assert answered(window, window.limit - 1) == window
    assert answered(window, window.limit).size >= window.size


@given(st.integers(0, 10**6))
def test_descriptors_are_never_used_up(descriptors):
    """The ceiling leaves descriptors to everything else as soon as there are any to leave."""
    ceiling = descriptor_ceiling(descriptors)
    assert ceiling >= 1
    assert ceiling == 1 or ceiling * 2 < descriptors

"""What cassettes hold, parts of them, and how two differ."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.cassette import Cassette, decode_cassette, encode_cassette, merge
from osmosis.pure.cassette_report import call_lines, calls_by_row, compare, contents, pruned
from tests.strategies.bridge import cassettes


@given(cassettes())
def test_the_counts_add_up(cassette: Cassette):
    """Every call is listed once, in order of its key, and the counts are those of the list."""
    held, lines = contents(cassette), call_lines(cassette)
    assert held.calls == len(lines) == sum(count for _, count in calls_by_row(cassette))
    assert list(lines) == sorted(lines, key=lambda line: (line.row, line.run, line.digest, line.ordinal))
    assert held.streams == sum(line.stream for line in lines)
    assert held.refusals == sum(line.status != 200 for line in lines)
    assert held.rows == len({line.row for line in lines})
    assert held.tokens == (sum(line.tokens or 0 for line in lines) if any(line.tokens is not None for line in lines) else None)


@given(cassettes(), st.sets(st.integers(0, 5)), st.none() | st.integers(1, 3), st.booleans())
def test_a_part_keeps_what_was_asked_for_and_nothing_else(cassette, rows, runs, refusals):
    """Pruning keeps exactly the wanted calls, unchanged, and what it leaves can be read back."""
    part = pruned(cassette, rows=rows.__contains__, runs=runs, refusals=refusals)
    for key, call in cassette.calls.items():
        wanted = key.row in rows and (runs is None or key.run < runs) and (refusals or call.status == 200)
        assert (part.calls.get(key) == call) if wanted else key not in part.calls
    assert decode_cassette(encode_cassette(part), "c").cassette == part
    assert pruned(part, rows=rows.__contains__, runs=runs, refusals=refusals) == part
    assert pruned(cassette) == cassette


@given(cassettes(), cassettes())
def test_differences_are_told_both_ways(first, second):
    """What one has more, the other has less; a cassette does not differ from itself; merging leaves nothing removed."""
    there, back = compare(first, second), compare(second, first)
    assert there.removed == back.added
    assert there.added == back.removed
    assert len(there.changed) == len(back.changed)
    assert there.unchanged == back.unchanged
    assert compare(first, first).same
    assert compare(first, merge(first, second)).removed == ()


@given(cassettes())
def test_another_answer_is_a_change_and_other_usage_is_none(cassette):
    """Only what a client hears counts."""
    louder = {key: msgspec.structs.replace(call, status=call.status + 1) for key, call in cassette.calls.items()}
    assert len(compare(cassette, Cassette(cassette.header, louder)).changed) == len(louder)
    silent = {key: msgspec.structs.replace(call, usage=None) for key, call in cassette.calls.items()}
    assert compare(cassette, Cassette(cassette.header, silent)).same

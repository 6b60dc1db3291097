"""Texts, JSON values, rows, selections, and ways to cut bytes into chunks."""

from __future__ import annotations

from hypothesis import strategies as st

from osmosis.pure.dataset import Row
from osmosis.pure.selection import RowRange, RowSelection, select

# Characters that some reader somewhere takes for a line's end or a cell's, and some that need care in JSON.
awkward = st.sampled_from("\n\r\t\f\v\0,\"\\{}:[]'\x1c\x85\u2028\u2029\ufeffé数😀 a")
texts = st.text(awkward | st.characters(codec="utf-8"), max_size=12)
surrogate_texts = st.text(awkward | st.characters(), max_size=12)
wide_integers = st.integers(-(10**30), 10**30)
json_values = st.recursive(
    st.none() | st.booleans() | wide_integers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(texts, json_values, max_size=4)


@st.composite
def rows(draw: st.DrawFn, text: st.SearchStrategy[str] = surrogate_texts) -> Row:
    """A row as normalisation leaves it: no empty text, no empty metadata, and something to work on."""
    some = text.filter(bool)
    system, user = draw(st.none() | some), draw(st.none() | some)
    metadata = draw(json_objects.filter(bool) if system is None and user is None else st.none() | json_objects.filter(bool))
    return Row(draw(st.integers(0, 10**6)), system, user, draw(st.none() | some), metadata)


row_ranges = st.builds(lambda first, extra: RowRange(first, first + extra), st.integers(0, 60), st.integers(0, 12))
selections: st.SearchStrategy[RowSelection] = st.lists(row_ranges, min_size=1, max_size=6).map(select)


@st.composite
def chunked(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """`data` cut at arbitrary places, empty chunks included."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]

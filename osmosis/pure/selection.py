"""Which rows of a dataset are evaluated: `--rows`, `[evaluation].limit`, and the managed 10 % sample (E6; ruling 4).

A selection is a tuple of ranges, never a list of indices, so `--rows 0-999999999999` costs nothing however few rows the file
turns out to have. `row_index` is a position in the selection, `source_row_index` an offset in the file; both count from 0.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

import msgspec
import xxhash

from osmosis.pure.errors import OsmosisError, Problem

_GRAMMAR = re.compile("[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")
_MAX_DIGITS = 18
"""No file has 10^18 rows; a longer number is a mistake, and converting it would only cost time."""

_HINT = "Write indices and ranges counted from 0, without spaces: `--rows 3,7,10-20`."
_SHOWN = 20


class RowRange(msgspec.Struct, frozen=True, order=True):
    """The rows `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


class RowSelection(msgspec.Struct, frozen=True):
    """Rows by their offset in the file: ascending ranges that neither overlap nor touch."""

    ranges: tuple[RowRange, ...]

    def __str__(self) -> str:
        """The compact selector that the manifest records: `0-8`, `1-3,7,9-10`."""
        return ",".join(map(str, self.ranges))

    @property
    def count(self) -> int:
        """How many rows are selected."""
        return sum(part.last - part.first + 1 for part in self.ranges)

    def __contains__(self, source_row_index: int) -> bool:
        position = bisect_right(self.ranges, source_row_index, key=lambda part: part.first)
        return position > 0 and source_row_index <= self.ranges[position - 1].last

    def indices(self) -> Iterator[int]:
        """The selected `source_row_index` values, ascending."""
        for part in self.ranges:
            yield from range(part.first, part.last + 1)

    def within(self, first: int, count: int) -> Iterator[range]:
        """The selected parts of the rows `first` to `first + count - 1`."""
        end = first + count
        position = max(bisect_right(self.ranges, first, key=lambda part: part.first) - 1, 0)
        while position < len(self.ranges) and self.ranges[position].first < end:
            part = range(max(first, self.ranges[position].first), min(end, self.ranges[position].last + 1))
            if part:
                yield part
            position += 1


class SourceRows:
    """`source_row_index` by `row_index`, in memory that does not grow with the selection."""

    def __init__(self, selected: RowSelection) -> None:
        self._ranges = selected.ranges
        self._starts = [0, *accumulate(part.last - part.first + 1 for part in selected.ranges)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, row_index: int) -> int:
        """Raises IndexError beyond either end."""
        if not 0 <= row_index < self._starts[-1]:
            raise IndexError(f"there is no selected row {row_index}")
        position = bisect_right(self._starts, row_index) - 1
        return self._ranges[position].first + row_index - self._starts[position]


def select(ranges: Iterable[RowRange]) -> RowSelection:
    """A selection of any ranges, in any order, overlapping or not."""
    merged: list[RowRange] = []
    for part in sorted(ranges):
        if merged and part.first <= merged[-1].last + 1:
            merged[-1] = RowRange(merged[-1].first, max(merged[-1].last, part.last))
        else:
            merged.append(part)
    return RowSelection(tuple(merged))


def parse_rows(text: str) -> RowSelection | None:
    """Read the value of `--rows`: `N` or `A-B`, comma separated, ASCII digits, A <= B. Repetitions are merged.

    White space around the whole is ignored; nothing but white space means "not given" and returns None. Raises OsmosisError
    for bad grammar and for every inverted range, which is shown the other way round.
    """
    text = text.strip()
    if not text:
        return None
    if _GRAMMAR.fullmatch(text) is None:
        raise OsmosisError(f"--rows {_shorten(text)!r} is not a list of rows.", hint=_HINT)
    if too_long := [number for number in re.findall("[0-9]+", text) if len(number.lstrip("0")) > _MAX_DIGITS]:
        raise OsmosisError(f"--rows names a row number of {len(too_long[0])} digits.", hint=_HINT)
    ranges = [RowRange(int(first), int(last or first)) for first, _, last in (part.partition("-") for part in text.split(","))]
    if inverted := [part for part in ranges if part.first > part.last]:
        raise OsmosisError(
            "--rows has a range that runs backwards.",
            problems=[Problem("--rows", f"{part}; did you mean {part.last}-{part.first}?") for part in inverted[:_SHOWN]],
            hint=_HINT,
        )
    return select(ranges)


def resolve_selection(rows: RowSelection | None, limit: int | None, total_rows: int, label: str) -> RowSelection:
    """The rows that a run evaluates, now that the file's row count is known.

    `rows` wins over `limit`; without either, every row. `label` names the dataset in errors. Raises OsmosisError when the
    dataset is empty or `rows` reaches beyond its end.
    """
    if total_rows == 0:
        raise OsmosisError(f"{label} has no rows.", hint="Give a dataset with at least one row.")
    everything = RowRange(0, total_rows - 1)
    if rows is None:
        return RowSelection((everything if limit is None else RowRange(0, min(limit, total_rows) - 1),))
    beyond = [RowRange(max(part.first, total_rows), part.last) for part in rows.ranges if part.last >= total_rows]
    if beyond:
        shown = ",".join(map(str, beyond[:_SHOWN])) + (f" and {len(beyond) - _SHOWN} more ranges" if beyond[_SHOWN:] else "")
        raise OsmosisError(
            f"--rows selects rows that {label} does not have: {shown}.",
            problems=[Problem(label, f"{_rows(total_rows)}, so valid indices are {everything}")],
            hint=_HINT,
        )
    return rows


def managed_sample(total_rows: int, seed: int) -> RowSelection:
    """The random tenth of the rows that a managed run without `limit` evaluates: rounded down, at least one row (E6).

    The sample is a pure function of `total_rows` and `seed`: the rows whose keyed hash is smallest. It is uniform, and stays
    the same across Python versions.
    """
    if total_rows <= 0:
        raise ValueError("a sample needs at least one row")
    key = seed.to_bytes((seed.bit_length() + 8) // 8, "big", signed=True)
    ranked = ((xxhash.xxh3_64_intdigest(index.to_bytes(8, "big") + key), index) for index in range(total_rows))
    chosen = heapq.nsmallest(max(1, total_rows // 10), ranked)
    return select(RowRange(index, index) for _, index in chosen)


def _rows(count: int) -> str:
    return "it has 1 row" if count == 1 else f"it has {count} rows"


def _shorten(text: str, length: int = 60) -> str:
    return text if len(text) <= length else f"{text[:length]}..."

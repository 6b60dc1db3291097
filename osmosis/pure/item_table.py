"""One value for each work item of a plan, in as many bytes as it has to say (issue 6, decision 0062).

A record that stands in a dict under its work item costs some 600 bytes: the key, the record, and an object for each of its
fields. Here it is MessagePack of its fields alone, all records one behind the other, and an item's place follows from the plan.
Reading a value makes it anew, equal to the one that was put in.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, MutableMapping
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec

from osmosis.pure.journal import Result, RunHistory, WorkItem

Value = TypeVar("Value")

_ABSENT: Any = object()
_LEAST_UNUSED = 1 << 16
"""Bytes of replaced values that are not worth tidying up."""


class Packing(msgspec.Struct, Generic[Value], frozen=True):
    """How a value becomes bytes, at least one, and comes back."""

    pack: Callable[[Value], bytes]
    unpack: Callable[[bytes | bytearray], Value]


def packing(kind: type[Value]) -> Packing[Value]:
    """The packing of a built-in type, or of a record with at least two fields, none of them by keyword alone."""
    encode = msgspec.msgpack.Encoder().encode
    if not issubclass(kind, msgspec.Struct):
        return Packing(encode, msgspec.msgpack.Decoder(kind).decode)
    fields = msgspec.structs.fields(kind)
    values_of = attrgetter(*(field.name for field in fields))
    types: Any = tuple[tuple(field.type for field in fields)]  # type: ignore[misc]  # made of what is known when this runs
    decode = msgspec.msgpack.Decoder(types).decode
    return Packing(lambda record: encode(values_of(record)), lambda data: kind(*decode(data)))


class ItemTable(MutableMapping[WorkItem, Value]):
    """Values by work item, for a plan of `rows` rows with `runs` runs each.

    An item costs 12 bytes and its packed value. Items are listed in the order of the plan; behind them, sorted, those outside
    the plan and those whose value no packing holds (an integer of more than 64 bits): these are kept as they are.
    """

    def __init__(self, packing: Packing[Value], rows: int, runs: int) -> None:
        self._packing = packing
        self._rows = rows
        self._runs = runs
        self._starts = array("Q", [0]) * (rows * runs)
        self._sizes = array("I", [0]) * (rows * runs)
        self._packed = bytearray()
        self._count = 0
        self._unused = 0
        self._others: dict[WorkItem, Value] = {}

    def __setitem__(self, item: WorkItem, value: Value) -> None:
        place = self._place(item)
        try:
            data = b"" if place is None else self._packing.pack(value)
        except (OverflowError, UnicodeEncodeError):
            data = b""
        if place is not None and self._sizes[place]:
            self._free(place)
        if place is None or not data:
            self._others[item] = value
            return
        if self._others:
            self._others.pop(item, None)
        self._starts[place] = len(self._packed)
        self._sizes[place] = len(data)
        self._packed += data
        self._count += 1

    def __getitem__(self, item: WorkItem) -> Value:
        value = self.get(item, _ABSENT)
        if value is _ABSENT:
            raise KeyError(item)
        found: Value = value
        return found

    def __delitem__(self, item: WorkItem) -> None:
        place = self._place(item)
        if place is not None and self._sizes[place]:
            self._free(place)
        else:
            del self._others[item]

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, WorkItem):
            return False
        place = self._place(item)
        return (place is not None and self._sizes[place] > 0) or item in self._others

    def get(self, item: WorkItem, default: Any = None) -> Any:
        """The item's value, or `default`. Asked for every item of a run, so nothing is raised and caught."""
        place = self._place(item)
        if place is None or not (size := self._sizes[place]):
            return self._others.get(item, default)
        start = self._starts[place]
        return self._packing.unpack(self._packed[start : start + size])

    def __len__(self) -> int:
        return self._count + len(self._others)

    def __iter__(self) -> Iterator[WorkItem]:
        for place, size in enumerate(self._sizes):
            if size:
                yield WorkItem(*divmod(place, self._runs))
        yield from sorted(self._others)

    @property
    def size(self) -> int:
        """Bytes that are held for the items of the plan."""
        return len(self._packed) + sum(len(column) * column.itemsize for column in (self._starts, self._sizes))

    def _place(self, item: WorkItem) -> int | None:
        row, run = item.row_index, item.run_index
        return row * self._runs + run if 0 <= row < self._rows and 0 <= run < self._runs else None

    def _free(self, place: int) -> None:
        self._unused += self._sizes[place]
        self._sizes[place] = 0
        self._count -= 1
        if self._unused > max(_LEAST_UNUSED, len(self._packed) // 2):
            self._tidy()

    def _tidy(self) -> None:
        """Leave out what was replaced: memory depends on the number of items, not on how often each was retried."""
        kept = bytearray()
        for place, size in enumerate(self._sizes):
            if size:
                start = self._starts[place]
                self._starts[place] = len(kept)
                kept += self._packed[start : start + size]
        self._packed, self._unused = kept, 0


def packed_history(rows: int, runs: int) -> RunHistory:
    """An empty history, of a run of that plan, which keeps its items in tables. It takes a microsecond more a record."""
    return RunHistory(
        total_items=rows * runs,
        results=ItemTable(packing(Result), rows, runs),
        attempts=ItemTable(packing(int), rows, runs),
        _made_by=ItemTable(packing(int), rows, runs),
    )

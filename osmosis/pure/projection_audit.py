"""Whether the projections of a run are what a rebuild would write, byte for byte (issue 3; rulings 1 and 2; E16).

`rebuilt` is what the runner's own projector writes for this manifest, journal and these trials; `entries` is what lies there.
Below `trajectories/` and `artifacts/` nothing else may lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.canonical import decode_json
from osmosis.pure.finding import FileFact, Finding, Remedy, Severity
from osmosis.pure.journal import WorkItem

INDEX, SUMMARY, PROGRESS, METRICS = "index.jsonl", "summary.jsonl", "progress.json", "metrics.json"
PROJECTIONS = (INDEX, SUMMARY, PROGRESS, METRICS)
TRAJECTORIES, ARTIFACTS = COPIES = ("trajectories", "artifacts")
"""Directories that hold nothing but copies of the trials' files."""

_TEMPORARY = re.compile(r"\.(?P<name>.+?)(?:\.[a-z0-9_]{8})?\.tmp")
_SHOWN_DIFFERENCES = 3


class Rebuilt(msgspec.Struct, frozen=True):
    """One file of a rebuild: the fingerprint of its content and, for the four projections, the content."""

    digest: str
    content: bytes | None = None


def temporary_of(name: str) -> str | None:
    """The file that a temporary file called `name` was to become, None if `name` is not that of one of ours."""
    match = _TEMPORARY.fullmatch(name)
    return match["name"] if match else None


def stem(item: WorkItem) -> str:
    """What the copies of an item's files are called below `trajectories/` and `artifacts/`."""
    return f"row_{item.row_index}_run_{item.run_index}"


def stem_of(path: str) -> str:
    """The item that a copy is of: `row_0_run_1` for `trajectories/row_0_run_1.json` and `artifacts/row_0_run_1/a/b.txt`."""
    return path.partition("/")[2].partition("/")[0].removesuffix(".json")


def audit_projections(rebuilt: Mapping[str, Rebuilt], entries: Mapping[str, FileFact]) -> Iterator[Finding]:
    """Compare every file of the rebuild with what lies there, then name what lies there besides."""
    for path in sorted(rebuilt):
        entry = entries.get(path)
        if entry is None:
            yield Finding(path, "is missing", remedy=Remedy.REBUILD)
        elif entry.kind is not EntryKind.FILE:
            yield Finding(path, f"is a {entry.kind}, and a file is due", remedy=Remedy.MOVE_ASIDE)
        elif entry.trouble is not None:
            yield Finding(path, f"cannot be read: {entry.trouble}", remedy=Remedy.MOVE_ASIDE)
        elif entry.digest != rebuilt[path].digest:
            yield _difference(path, rebuilt[path], entry)
    for path in sorted(entries):
        if path.startswith(COPIES) and (stray := _stray(path, rebuilt, entries[path])):
            yield stray


def _stray(path: str, rebuilt: Mapping[str, Rebuilt], entry: FileFact) -> Finding | None:
    top, _, rest = path.partition("/")
    if top not in COPIES or path in rebuilt:
        return None
    if entry.kind is EntryKind.DIRECTORY:
        return None if entry.trouble is None else Finding(path, entry.trouble, remedy=Remedy.MOVE_ASIDE)
    if not rest:
        return Finding(path, f"is a {entry.kind}, and a directory is due", remedy=Remedy.MOVE_ASIDE)
    if entry.kind is EntryKind.FILE and temporary_of(path.rpartition("/")[2]):
        return Finding(
            path, "is a temporary file that a crash left behind", severity=Severity.WARNING, remedy=Remedy.MOVE_ASIDE
        )
    return Finding(path, "is not a copy of any file of a current result", remedy=Remedy.MOVE_ASIDE)


def _difference(path: str, rebuilt: Rebuilt, entry: FileFact) -> Finding:
    if rebuilt.content is None or entry.content is None:
        return Finding(path, "differs from the trial's own file", remedy=Remedy.MOVE_ASIDE)
    if path.endswith(".jsonl"):
        return line_difference(path, entry.content, rebuilt.content, "the journal and the trials say", Remedy.REBUILD)
    return Finding(path, json_difference(entry.content, rebuilt.content), remedy=Remedy.REBUILD)


def line_difference(path: str, there: bytes, due: bytes, authority: str, remedy: Remedy | None) -> Finding:
    """The first line in which `there`, the content of `path`, is not what `authority` says. The two must differ."""
    found, wanted = _lines(there), _lines(due)
    pairs = zip(found, wanted, strict=False)
    position = next((index for index, (ours, theirs) in enumerate(pairs) if ours != theirs), min(len(found), len(wanted)))
    if position == len(found):
        what = f"ends after {len(found)} of {len(wanted)} lines"
    elif position == len(wanted):
        what = f"goes on after the {len(wanted)} lines that are due"
    else:
        what = f"is not what {authority}"
        if sorted(found) == sorted(wanted):
            what += " (the same lines stand in another order)"
    return Finding(path, what, position + 1, remedy=remedy)


def _lines(data: bytes) -> list[bytes]:
    *complete, rest = data.split(b"\n")
    return [*(line + b"\n" for line in complete), *([rest] if rest else [])]


def json_difference(there: bytes, due: bytes) -> str:
    """How a JSON file differs from what is due: the first values that do, or that only the spelling does."""
    try:
        found = decode_json(there)
    except ValueError as error:
        return f"is not JSON: {error}"
    differences = list(_differences("", found, decode_json(due)))
    if not differences:
        return "says what is due, in other bytes"
    shown = "; ".join(differences[:_SHOWN_DIFFERENCES])
    more = len(differences) - _SHOWN_DIFFERENCES
    return shown + (f"; and {more} more differences" if more > 0 else "")


def _differences(path: str, found: Any, due: Any) -> Iterator[str]:
    if isinstance(found, dict) and isinstance(due, dict):
        for key in dict.fromkeys([*due, *found]):
            yield from _differences(f"{path}.{key}" if path else key, found.get(key, _ABSENT), due.get(key, _ABSENT))
    elif isinstance(found, list) and isinstance(due, list) and len(found) == len(due):
        for index, pair in enumerate(zip(found, due, strict=True)):
            yield from _differences(f"{path}[{index}]", *pair)
    elif repr(found) != repr(due):  # unlike ==, this tells 1 from 1.0 and from true
        yield f"{path or 'the value'} is {_shown(found)}, and {_shown(due)} is due"


class _Absent:
    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

"""The journal of `osmosis eval rubric`: judgements that are paid for and must survive a crash (issue 7).

JSON lines beside the output: a header that says what is being judged, then one line a judgement, appended and synced. A torn
last line is what a crash leaves; it is cut off. Failures are not recorded: resuming tries them again. Judgements of a higher
number than is asked for are kept and left out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from osmosis.pure.canonical import canonical_json, lines
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.nesting import decode_shallow

JOURNAL_FORMAT = 1


class RubricHeader(msgspec.Struct, frozen=True):
    """What decides a judgement: the digests of data and rubric (SHA-256), the model, the range."""

    data: str
    rubric: str
    model: str
    score_min: float
    score_max: float


class Recorded(msgspec.Struct, frozen=True):
    """One judgement of record `index` (from 1); `run` counts its judgements from 0."""

    index: int
    run: int
    score: float
    explanation: str


class RubricJournal(msgspec.Struct, frozen=True):
    """What a journal holds; `valid_bytes` is where a torn last line begins."""

    header: RubricHeader
    judgements: dict[tuple[int, int], Recorded]
    valid_bytes: int


def encode_header(header: RubricHeader) -> bytes:
    """The first line, newline included."""
    return canonical_json({"rubric_journal": JOURNAL_FORMAT, **msgspec.structs.asdict(header)}) + b"\n"


def encode_judgement(judgement: Recorded) -> bytes:
    """One judgement's line, newline included."""
    return canonical_json(msgspec.structs.asdict(judgement)) + b"\n"


def decode_journal(data: bytes, label: str) -> RubricJournal | None:
    """What a journal file says; None when not even its header was completely written.

    Raises OsmosisError for a damaged line that is not a torn last one.
    """
    header: RubricHeader | None = None
    judgements: dict[tuple[int, int], Recorded] = {}
    for number, offset, line in lines(data):
        if offset + len(line) == len(data):
            # Without its newline a line was not completely written, whatever it says.
            return None if header is None else RubricJournal(header, judgements, offset)
        try:
            if header is None:
                header = _header(line)
            else:
                judgement = msgspec.convert(decode_shallow(line), Recorded)
                judgements[judgement.index, judgement.run] = judgement
        except ValueError as error:
            raise OsmosisError(
                f"{label} is not a readable journal.",
                problems=[Problem(f"{label}:{number}", f"{error} (byte {offset})")],
                hint="Restore the file, or judge anew without --resume.",
            ) from None
    return None if header is None else RubricJournal(header, judgements, len(data))


def _header(line: bytes) -> RubricHeader:
    fields: Any = decode_shallow(line)
    if not isinstance(fields, dict) or fields.pop("rubric_journal", None) != JOURNAL_FORMAT:
        raise ValueError("the first line is no journal header of a known format")
    return msgspec.convert(fields, RubricHeader)


_NAMES = {"data": "the data file", "rubric": "the rubric", "model": "the model"}


def refuse_other(journal: RubricHeader, asked: RubricHeader, label: str) -> OsmosisError | None:
    """The error for a journal of other judgements than are asked for, or None."""
    changed = [name for name in RubricHeader.__struct_fields__ if getattr(journal, name) != getattr(asked, name)]
    if not changed:
        return None
    return OsmosisError(
        f"{label} belongs to other judgements.",
        code=ErrorCode.CONFLICT,
        problems=[Problem(label, f"Changed: {_NAMES.get(name, name)}", name) for name in changed],
        hint="Judge anew without --resume, or write to another --output.",
        details={"changed": changed},
    )

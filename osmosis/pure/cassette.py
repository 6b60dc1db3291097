"""Cassettes: recorded model calls that are replayed with no network and no key (ruling 21).

A cassette is JSON lines: a header, then one line a call. A call's key is its source row, its run index, the digest of the
request as it went upstream, and its ordinal among the *equal* requests of that rollout. So neither concurrency nor scheduling
can change what a rollout hears, and parallel calls inside one rollout cannot race: equal questions may share each other's
answers, unequal ones never can.

The digest is taken over canonical JSON, so white space and key order do not count; `stream_options` does not either, since
the bridge sets it. The order of lines carries no meaning: a later line with the same key replaces an earlier one, and the
normal form is sorted by key. Recording only ever appends, so a torn last line is what a crash leaves; it is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import xxhash

from osmosis.pure.canonical import canonical_json, lines, strip_byte_order_mark, well_formed
from osmosis.pure.completion import Redactor
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.nesting import decode_shallow
from osmosis.pure.usage import CallUsage

CASSETTE_FORMAT = 1

_HEADER_START = b'{"cassette":'

_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class CallKey(msgspec.Struct, frozen=True, order=True):
    """Which call this is. `row` is the position in the dataset file, from 0; `ordinal` counts equal requests, from 0."""

    row: int
    run: int
    digest: str
    ordinal: int


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the calls were recorded from. `created_at` is an ISO 8601 UTC time."""

    model: str
    recorded_from: str
    created_at: str
    notes: str = ""


class RecordedCall(msgspec.Struct, frozen=True):
    """One call: the request as it went upstream and the answer as it came, before any redirection to the client.

    `request` and `body` are decoded JSON; a body that is no JSON is a string. A stream has `events` instead: an object is the
    payload of a plain `data:` event, a string is any other event verbatim, without its blank line.
    """

    key: CallKey
    request: Mapping[str, Any]
    status: int
    body: Any = None
    events: tuple[Any, ...] | None = None
    usage: CallUsage | None = None

    @classmethod
    def of(
        cls,
        key: CallKey,
        request: Mapping[str, Any],
        *,
        status: int,
        body: bytes | None = None,
        events: Iterable[bytes] | None = None,
        usage: CallUsage | None = None,
    ) -> RecordedCall:
        """A call from what came over the wire: the whole `body`, or the stream's `events` without their blank lines."""
        if events is not None:
            return cls(key, request, status, events=tuple(map(_event_value, events)), usage=usage)
        return cls(key, request, status, body=_body_value(body or b""), usage=usage)


class Cassette(msgspec.Struct, frozen=True):
    """A header and its calls, by key."""

    header: Header
    calls: Mapping[CallKey, RecordedCall]


class CassetteTail(msgspec.Struct, frozen=True):
    """A decoded cassette file; `valid_bytes` is where a torn last line begins (the file's length when there is none)."""

    cassette: Cassette
    valid_bytes: int


def _body_value(body: bytes) -> Any:
    try:
        value = decode_shallow(body)
    except ValueError:
        return body.decode("utf-8", "replace")
    # A string stands for a body that is no JSON, so a JSON string keeps its quotes.
    return body.decode("utf-8", "replace") if isinstance(value, str) else value


def _event_value(raw: bytes) -> Any:
    text = raw.decode("utf-8", "replace")
    if "\n" not in text and text.startswith("data:"):
        try:
            value = decode_shallow(text[5:].encode())
        except ValueError:
            return text
        return value if isinstance(value, dict) else text
    return text


def stream_text(events: Iterable[Any]) -> bytes:
    """The recorded events as they go over the wire again."""
    return b"".join(
        (event if isinstance(event, str) else f"data: {_compact.encode(event)}").encode("utf-8", "surrogatepass") + b"\n\n"
        for event in events
    )


def redact(call: RecordedCall, redactor: Redactor) -> RecordedCall:
    """The call without secrets in any string value; keys, numbers and structure stay (ruling 13). The key is not changed."""
    return msgspec.structs.replace(
        call,
        request=_redact(call.request, redactor),
        body=_redact(call.body, redactor),
        events=None if call.events is None else tuple(_redact(event, redactor) for event in call.events),
    )


def _redact(value: Any, redactor: Redactor) -> Any:
    match value:
        case str():
            return redactor.text(value)
        case list():
            return [_redact(item, redactor) for item in value]
        case Mapping():
            return {name: _redact(item, redactor) for name, item in value.items()}
        case _:
            return value


def request_digest(request: Mapping[str, Any]) -> str:
    """The digest of an upstream request: `xxh3-128:v1:<hex>` over canonical JSON without `stream_options`."""
    meaning = {name: value for name, value in request.items() if name != "stream_options"}
    return f"xxh3-128:v1:{xxhash.xxh3_128_hexdigest(canonical_json(meaning))}"


def encode_header(header: Header) -> bytes:
    """The first line of a cassette, newline included."""
    return _line({"cassette": CASSETTE_FORMAT} | msgspec.to_builtins(header))


def encode_call(call: RecordedCall) -> bytes:
    """One call's line, newline included. Key order inside request and answer is kept."""
    fields: dict[str, Any] = {
        "row": call.key.row,
        "run": call.key.run,
        "digest": call.key.digest,
        "ordinal": call.key.ordinal,
        "request": call.request,
        "status": call.status,
    }
    if call.events is not None:
        fields["events"] = call.events
    else:
        fields["body"] = call.body
    if call.usage is not None:
        fields["usage"] = msgspec.to_builtins(call.usage)
    return _line(fields)


def encode_cassette(cassette: Cassette) -> bytes:
    """The normal form: the header, then the calls sorted by key. Equal cassettes have equal bytes."""
    calls = (encode_call(cassette.calls[key]) for key in sorted(cassette.calls))
    return encode_header(cassette.header) + b"".join(calls)


def fingerprint(cassette: Cassette) -> str:
    """The digest of what a replay can hear, for the run's lock: of the normal form without its header."""
    hasher = xxhash.xxh3_128()
    for key in sorted(cassette.calls):
        hasher.update(encode_call(cassette.calls[key]))
    return f"xxh3-128:v1:{hasher.hexdigest()}"


def merge(older: Cassette, newer: Cassette) -> Cassette:
    """Both cassettes' calls; where a key is in both, the newer call. The newer header stands."""
    return Cassette(newer.header, {**older.calls, **newer.calls})


def decode_cassette(data: bytes, label: str) -> CassetteTail:
    """Read a cassette file. `label` names it in errors.

    A last line without its newline is ignored if it is torn. Raises OsmosisError with every damaged line, its number and byte
    offset.
    """
    body = strip_byte_order_mark(data)
    offset_of_body = len(data) - len(body)
    header: Header | None = None
    calls: dict[CallKey, RecordedCall] = {}
    problems: list[Problem] = []
    valid = len(data)
    for number, offset, line in lines(body):
        torn = offset + len(line) == len(body)
        if not line.strip():
            continue
        try:
            # A further header is where another cassette was put behind this one; the newer header stands.
            if header is None or line.startswith(_HEADER_START):
                header = _decode_header(line)
            else:
                call = _decode_call(line)
                calls[call.key] = call
        except ValueError as error:
            if torn and header is not None:
                valid = offset_of_body + offset
                break
            problems.append(Problem(f"{label}:{number}", f"{error} (byte {offset_of_body + offset})"))
            if header is None:
                break
    if header is None and not problems:
        problems.append(Problem(f"{label}:1", "the header line is missing"))
    if problems or header is None:
        raise OsmosisError(
            f"{label} is not a readable cassette.",
            problems=problems,
            hint="Record it again with --record, or restore the file.",
        )
    return CassetteTail(Cassette(header, calls), valid)


def _decode_header(line: bytes) -> Header:
    fields = _object(line)
    version = fields.pop("cassette", None)
    if version is None:
        raise ValueError("the first line is no cassette header")
    if version != CASSETTE_FORMAT:
        raise ValueError(f"cassette format {version!r} is not known to this version, which reads {CASSETTE_FORMAT}")
    return msgspec.convert(fields, Header)


def _decode_call(line: bytes) -> RecordedCall:
    fields = _object(line)
    if ("body" in fields) == ("events" in fields):
        raise ValueError("a call has either a body or events")
    usage = fields.get("usage")
    return RecordedCall(
        key=msgspec.convert({name: fields.get(name) for name in ("row", "run", "digest", "ordinal")}, CallKey),
        request=msgspec.convert(fields.get("request"), dict[str, Any]),
        status=msgspec.convert(fields.get("status"), int),
        body=fields.get("body"),
        events=msgspec.convert(fields["events"], tuple[dict[str, Any] | str, ...]) if "events" in fields else None,
        usage=None if usage is None else msgspec.convert(usage, CallUsage),
    )


def _object(line: bytes) -> dict[str, Any]:
    value = decode_shallow(line)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _line(value: Any) -> bytes:
    return well_formed(_compact.encode(value)).encode() + b"\n"


class Missing(msgspec.Struct, frozen=True):
    """A request that a cassette does not hold, and the sentence that says why."""

    key: CallKey
    explanation: str


def find(cassette: Cassette, key: CallKey, request: Mapping[str, Any]) -> RecordedCall | Missing:
    """The recorded call for `key`, or an explanation that compares `request` with what was recorded for that rollout."""
    call = cassette.calls.get(key)
    return call if call is not None else Missing(key, explain_missing(key, request, cassette.calls.values()))


def explain_missing(key: CallKey, request: Mapping[str, Any], candidates: Iterable[RecordedCall]) -> str:
    """Say what differs between `request` and the recorded requests: the path and both values of the closest one."""
    where = f"the cassette has no answer for this request of row {key.row}, run {key.run}"
    calls = list(candidates)
    same_rollout = [call for call in calls if (call.key.row, call.key.run) == (key.row, key.run)]
    repeats = sum(call.key.digest == key.digest for call in same_rollout)
    if repeats:
        return f"{where}: it holds this request {repeats} time(s), and it was asked {key.ordinal + 1} times"
    if not same_rollout:
        runs = sorted({call.key.run for call in calls if call.key.row == key.row})
        recorded = f"only of its run(s) {', '.join(map(str, runs))}" if runs else "nothing of that row"
        return f"{where}: it holds {recorded}"
    closest = min((_differences(call.request, request, "") for call in same_rollout), key=len)
    shown = "; ".join(closest[:_SHOWN_DIFFERENCES])
    more = f"; and {len(closest) - _SHOWN_DIFFERENCES} more" if len(closest) > _SHOWN_DIFFERENCES else ""
    return f"{where}. Compared with the closest of {len(same_rollout)} recorded: {shown}{more}"


_SHOWN_DIFFERENCES = 5
_SHOWN_CHARACTERS = 80


def _differences(recorded: Any, asked: Any, path: str) -> list[str]:
    if isinstance(recorded, Mapping) and isinstance(asked, Mapping):
        names = [*recorded, *(name for name in asked if name not in recorded)]
        pairs = [(f"{path}.{name}".lstrip("."), recorded.get(name, _ABSENT), asked.get(name, _ABSENT)) for name in names]
        return [found for name, old, new in pairs if name != "stream_options" for found in _differences(old, new, name)]
    if isinstance(recorded, list) and isinstance(asked, list):
        length = max(len(recorded), len(asked))
        padded = [values + [_ABSENT] * (length - len(values)) for values in (recorded, asked)]
        return [
            found
            for index, (old, new) in enumerate(zip(*padded, strict=True))
            for found in _differences(old, new, f"{path}[{index}]")
        ]
    if type(recorded) is type(asked) and recorded == asked:
        return []
    start = _first_difference(recorded, asked)
    return [f"{path or 'the request'}: recorded {_show(recorded, start)}, asked {_show(asked, start)}"]


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def _first_difference(recorded: Any, asked: Any) -> int:
    if not (isinstance(recorded, str) and isinstance(asked, str)):
        return 0
    shortest = min(len(recorded), len(asked))
    return next((index for index in range(shortest) if recorded[index] != asked[index]), shortest)


def _show(value: Any, start: int) -> str:
    if value is _ABSENT:
        return "nothing"
    if not isinstance(value, str):
        text = canonical_json(value).decode()
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    # Long texts are shown from a little before the place where they part.
    begin = max(0, start - _SHOWN_CHARACTERS // 4)
    excerpt = value[begin : begin + _SHOWN_CHARACTERS]
    before = "..." if begin else ""
    after = "..." if begin + _SHOWN_CHARACTERS < len(value) else ""
    return f"{before}{excerpt!r}{after}"

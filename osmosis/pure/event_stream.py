"""Server-sent events of a streamed completion, as bytes in and bytes out (ruling 18; WHATWG HTML section 9.2).

The bridge passes events on as they arrive and touches two things: the chunk's `model`, and the usage-only chunk that it asked
for on its own account. Everything else, comments and unknown fields included, leaves as it came.

Lines end in LF or CRLF, also mixed. A bare CR, which no model server sends, does not end a line.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from osmosis.pure.members import decode_member, join_members, read_members
from osmosis.pure.usage import CallUsage, UsageDetails, read_details, read_usage

_BOUNDARY = re.compile(rb"\r?\n\r?\n")


class _Choice(msgspec.Struct):
    finish_reason: Any = None


_choices = msgspec.json.Decoder(list[_Choice])


class StreamEvent(msgspec.Struct, frozen=True):
    """One event of a stream.

    `raw` is the event without its blank line. `members` are the chunk's members as JSON bytes, None when the event carries
    no JSON object. `usage` and `details` are what the chunk reports, `finish_reason` whether a choice ended in it, `terminal`
    whether it is `[DONE]`, and `failed` whether it reports an error in place of a completion.
    """

    raw: bytes
    members: dict[str, bytes] | None = None
    usage: CallUsage | None = None
    details: UsageDetails | None = None
    finish_reason: bool = False
    terminal: bool = False
    failed: bool = False

    @property
    def usage_only(self) -> bool:
        """The extra chunk that `stream_options.include_usage` asks for: no choices, and usage."""
        return self.usage is not None and self.members is not None and self.members.get("choices") == b"[]"


def split_events(kept: bytes, chunk: bytes) -> tuple[list[bytes], bytes]:
    """Cut complete events off the front of `kept + chunk`: (events without their blank lines, the rest to keep for later).

    `kept` is the rest of the previous call, or empty. It is not searched again, so a long event costs no more than its length.
    """
    buffer = kept + chunk
    events, start = [], 0
    # A blank line may have begun in the last three bytes that are already known.
    for boundary in _BOUNDARY.finditer(buffer, max(0, len(kept) - 3)):
        event = buffer[start : boundary.start()]
        start = boundary.end()
        if event.strip(b"\r\n"):
            events.append(event)
    return events, buffer[start:]


def read_event(raw: bytes) -> StreamEvent:
    """Understand one event. Never raises: what is no JSON object is an event without members."""
    payload = _payload(raw)
    if payload is None:
        return StreamEvent(raw)
    if payload == b"[DONE]":
        return StreamEvent(raw, terminal=True)
    try:
        members = read_members(payload)
    except ValueError:
        return StreamEvent(raw)
    usage = decode_member(members, "usage")
    return StreamEvent(
        raw,
        members,
        usage=read_usage(usage),
        details=read_details(usage),
        finish_reason=_finished(members.get("choices", b"[]")),
        failed=members.get("error", b"null") != b"null",
    )


def write_event(event: StreamEvent, client_model: str) -> bytes:
    """The event as it goes to the client, blank line included, with `model` replaced by what the client asked for."""
    members = event.members
    if members is None or "model" not in members:
        return event.raw + b"\n\n"
    model = msgspec.json.encode(client_model)
    if members["model"] == model:
        return event.raw + b"\n\n"
    others = [line for line in event.raw.splitlines() if not line.startswith(b"data:")]
    return b"\n".join([*others, b"data: " + join_members({**members, "model": model})]) + b"\n\n"


def _payload(raw: bytes) -> bytes | None:
    lines = [line[5:].removeprefix(b" ") for line in raw.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines).strip() if lines else None


def _finished(choices: bytes) -> bool:
    try:
        return any(choice.finish_reason is not None for choice in _choices.decode(choices))
    except (msgspec.DecodeError, RecursionError):
        return False

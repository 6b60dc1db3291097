"""The live preview of a rollout: a small, redacted trajectory document that is written while the rollout runs.

Decides which rollout ids may have one, what of a conversation stands in it, and how it stays small (contract: rollout_protocol
section 11). A preview is for eyes, not for records: no token counts, nothing that looks like a credential, and of a long
conversation the newest part only. Unlike the public package, a text that holds a key keeps its other words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from osmosis.pure.canonical import well_formed
from osmosis.pure.protocol import RolloutStatus
from osmosis.pure.redaction import MARKER, Redactor
from osmosis.pure.trajectory_conversion import Conversation, convert_conversation

INTERVAL_SEC: Final = 3.0
SOURCE_TIMEOUT_SEC: Final = 1.0
MAX_MESSAGES: Final = 100
MAX_BYTES: Final = 900 * 1024
MAX_SNAPSHOT_BYTES: Final = 8 * 1024 * 1024
MAX_CHARACTERS: Final = 16_384
MAX_ENTRIES: Final = 1_000
TRUNCATED_FIELD: Final = "_preview_truncated"
TURN_FIELD: Final = "_preview_turn"

_PREVIEW_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,255}")
_SENSITIVE_NAME = r"(?:api[ _-]?key|authorization|password|credential|secret|token)"
_SENSITIVE_KEY = re.compile(_SENSITIVE_NAME, re.IGNORECASE)
# No pattern begins with a repetition, so that a long text costs its length once.
_CREDENTIALS: Final = (
    (re.compile(r"\b(Bearer|Basic)[ \t]{1,8}[A-Za-z0-9._~+/=-]+", re.IGNORECASE), rf"\1 {MARKER}"),
    (
        re.compile(
            rf"""({_SENSITIVE_NAME}[A-Za-z0-9_.-]{{0,64}}["']?\s{{0,4}}[:=]\s{{0,4}})("[^"]*"|'[^']*'|[^\s,;&"')}}\]]+)""",
            re.IGNORECASE,
        ),
        rf"\1{MARKER}",
    ),
    (re.compile(r"(://)[^/\s@]{1,512}@"), rf"\1{MARKER}@"),
)


class Preview(msgspec.Struct, frozen=True):
    """One state of a rollout, to be shown: its newest messages, how it stands, and how often it was shown (from 1)."""

    rollout_id: str
    messages: Sequence[Mapping[str, Any]]
    status: RolloutStatus
    version: int
    updated_at: str
    turn: int | None = None
    truncated: bool = False


def may_be_previewed(rollout_id: str) -> bool:
    """Whether an id is safe as the name of a directory that others list: at most 256 letters, digits and `. _ : -`."""
    return _PREVIEW_ID.fullmatch(rollout_id) is not None


def preview_hints(extra_fields: Mapping[str, Any]) -> tuple[int | None, bool]:
    """What a sample source says of its own preview: the turn, and whether it left older messages out."""
    turn = extra_fields.get(TURN_FIELD)
    usable = isinstance(turn, int) and not isinstance(turn, bool) and turn >= 0
    return (turn if usable else None), extra_fields.get(TRUNCATED_FIELD) is True


def encode_preview(preview: Preview, redactor: Redactor, *, sdk_version: str) -> bytes:
    """The bytes of `preview.json`: compact ASCII JSON of at most `MAX_BYTES`, without `redactor`'s secrets and credentials."""
    messages, dropped = _newest(preview.messages)
    document = convert_conversation(Conversation(rollout_id=preview.rollout_id, messages=messages), sdk_version=sdk_version)
    cut = _Cut(redactor)
    shown = [_step(step, cut) for step in msgspec.to_builtins(document.steps)][-MAX_MESSAGES:]
    agents = sum(step.source == "agent" for step in document.steps)
    truncated = preview.truncated or dropped or cut.happened or len(document.steps) > MAX_MESSAGES
    head = {
        "schema_version": document.schema_version,
        "session_id": document.session_id,
        "trajectory_id": document.trajectory_id,
        "agent": cut.value(msgspec.to_builtins(document.agent)),
    }
    about = {
        "rollout_id": preview.rollout_id,
        "preview": True,
        "turn": agents if preview.turn is None else preview.turn,
        "truncated": truncated,
        "status": preview.status.value,
        "preview_version": preview.version,
        "updated_at": preview.updated_at,
    }
    room = MAX_BYTES - len(_json({**head, "steps": [], "extra": {"osmosis": about}})) - 16
    kept = _fitting(shown, room)
    about["truncated"] = truncated or len(kept) < len(shown) or kept[-1] is not shown[-1]
    steps = [{**step, "step_id": number} for number, step in enumerate(kept, 1)]
    return _json({**head, "steps": steps, "extra": {"osmosis": about}}).encode("ascii")


def _newest(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], bool]:
    """The newest messages that fit a snapshot, and whether any were left out. The very newest is always kept."""
    kept: list[Mapping[str, Any]] = []
    size = 0
    for message in reversed(messages):
        size += len(json.dumps(message, default=str, skipkeys=True))
        if kept and (size > MAX_SNAPSHOT_BYTES or len(kept) >= 2 * MAX_MESSAGES):
            return kept[::-1], True
        kept.append(message)
    return kept[::-1], False


_SHOWN_FIELDS = ("timestamp", "source", "model_name", "message", "reasoning_content", "tool_calls", "observation", "extra")


def _step(step: dict[str, Any], cut: _Cut) -> dict[str, Any]:
    shown: dict[str, Any] = {"step_id": step["step_id"]}
    shown |= {name: cut.value(step[name]) for name in _SHOWN_FIELDS if name in step}
    shown["extra"] = {**shown.get("extra", {}), "osmosis": {"original_step_id": step["step_id"]}}
    return shown


def _fitting(steps: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """The newest steps that fit into `room` bytes; the newest one alone is reduced to its text if it does not fit."""
    kept: list[dict[str, Any]] = []
    for step in reversed(steps):
        # One more for the comma, and room for a step number that is longer after renumbering: it never is.
        room -= len(_json(step)) + 1
        if room < 0:
            break
        kept.append(step)
    if not kept:
        newest = steps[-1]
        reduced = {name: newest[name] for name in ("step_id", "source", "message")}
        kept.append({**reduced, "extra": {"osmosis": newest["extra"]["osmosis"]}})
    return kept[::-1]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class _Cut:
    """Redacts and shortens values, and remembers whether it shortened any."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.happened = False

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            self.happened |= len(value) > MAX_ENTRIES
            return [self.value(item) for item in value[:MAX_ENTRIES]]
        if isinstance(value, dict):
            self.happened |= len(value) > MAX_ENTRIES
            entries = list(value.items())[:MAX_ENTRIES]
            return {self._text(key): self._entry(key, item) for key, item in entries}
        return value

    def _entry(self, key: str, item: Any) -> Any:
        return MARKER if item is not None and _SENSITIVE_KEY.search(key) else self.value(item)

    def _text(self, text: str) -> str:
        text = self._redactor.text(well_formed(text))
        for pattern, replacement in _CREDENTIALS:
            text = pattern.sub(replacement, text)
        if len(text) > MAX_CHARACTERS:
            self.happened = True
            return text[:MAX_CHARACTERS]
        return text

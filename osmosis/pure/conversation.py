"""A trajectory as a person reads it: who said what, which tools were called and what came back, long texts cut (issue 9).

Whatever was stored is shown as far as it goes; a document that cannot be read is said and hides nothing else. All texts are
neutralised, and a `Passage` says how much of it was left out, so that a report of many samples stays of bounded size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from osmosis.pure.canonical import decode_json, well_formed
from osmosis.pure.presentation import neutralise
from osmosis.pure.trajectory import Content, Step, TextPart, Trajectory


class Passage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text and how many more characters it has."""

    text: str
    more: int = 0


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call: its arguments as JSON, and what came back if anything did."""

    name: str
    arguments: Passage
    results: tuple[Passage, ...] = ()


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. `role` is system, user or agent; `observations` came back without naming a call."""

    role: str
    message: Passage
    reasoning: Passage | None = None
    calls: tuple[Call, ...] = ()
    observations: tuple[Passage, ...] = ()


class Conversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The turns of a sample. `left_out` turns follow that did not fit; `trouble` says why there are none."""

    turns: tuple[Turn, ...] = ()
    left_out: int = 0
    trouble: str = ""


class TextLimits(msgspec.Struct, frozen=True):
    """How many characters of a single text, and of a whole sample, are kept."""

    passage: int = 20_000
    sample: int = 400_000


_KEPT_CHARACTERS = 160_000_000
_SHORTEST = TextLimits(800, 4_000)


def limits_for(samples: int) -> TextLimits:
    """Limits with which so many samples make a report that a browser still opens: the more samples, the shorter the texts."""
    most = TextLimits()
    share = _KEPT_CHARACTERS // max(samples, 1)
    return TextLimits(
        passage=min(max(share // 5, _SHORTEST.passage), most.passage), sample=min(max(share, _SHORTEST.sample), most.sample)
    )


def conversation(document: bytes | None, limits: TextLimits) -> Conversation:
    """The turns of a trajectory document. None, or bytes that are no trajectory, give none, and the reason."""
    if document is None:
        return Conversation(trouble="This sample has no stored trajectory.")
    try:
        trajectory = msgspec.convert(decode_json(document), Trajectory)
    except (ValueError, msgspec.ValidationError, RecursionError):
        return Conversation(trouble="The stored trajectory is not a document that can be shown.")
    reader = _Reader(limits)
    turns: list[Turn] = []
    for step in trajectory.steps:
        if reader.spent:
            break
        turns.append(reader.turn(step))
    return Conversation(tuple(turns), len(trajectory.steps) - len(turns))


def passage(text: str, limit: int) -> Passage:
    """The first `limit` characters of `text`, safe to show, and how many more there are."""
    return Passage(neutralise(well_formed(text[:limit])), max(len(text) - limit, 0))


class _Reader:
    """Cuts texts, and counts what is left of a sample's share."""

    def __init__(self, limits: TextLimits) -> None:
        self._limits = limits
        self._left = limits.sample

    @property
    def spent(self) -> bool:
        return self._left <= 0

    def turn(self, step: Step) -> Turn:
        """A step, its results beside the calls that they answer."""
        results = step.observation.results if step.observation else []
        calls = step.tool_calls or []
        named = {call.tool_call_id for call in calls}
        return Turn(
            role=step.source,
            message=self._passage(_plain(step.message)),
            reasoning=self._passage(step.reasoning_content) if step.reasoning_content else None,
            calls=tuple(
                Call(
                    self._passage(call.function_name).text,
                    self._passage(_arguments(call.arguments)),
                    self._passages(_plain(result.content) for result in results if result.source_call_id == call.tool_call_id),
                )
                for call in calls
            ),
            observations=self._passages(_plain(result.content) for result in results if result.source_call_id not in named),
        )

    def _passages(self, texts: Iterable[str]) -> tuple[Passage, ...]:
        return tuple(self._passage(text) for text in texts)

    def _passage(self, text: str) -> Passage:
        kept = passage(text, max(min(self._limits.passage, self._left), 0))
        self._left -= len(kept.text)
        return kept


def _arguments(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False, indent=2)


def _plain(content: Content | None) -> str:
    """Text as it is; parts on lines of their own; of an image its path."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text if isinstance(part, TextPart) else f"[image: {part.source.path}]" for part in content)

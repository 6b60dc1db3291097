"""Tokens: per model call, and per rollout (E18, contract `eval_local.md` section 7).

Two numbers belong to a rollout: `tokens`, the sum over its model calls, and `max_context_tokens`, the largest single call,
prompt plus completion. They come from one source, never from a mixture: the model bridge's count of each call; if the bridge
counted none, the rollout's own trajectory; if that is silent too, they are absent. What nobody reported is absent, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

MAX_COUNT = 2**53 - 1
"""The largest count that is believed: the largest integer that every JSON reader keeps exact (RFC 8259 section 6)."""

_PROMPT_KEYS = ("prompt_tokens", "input_tokens")
_COMPLETION_KEYS = ("completion_tokens", "output_tokens")
_TOTAL_KEYS = ("total_tokens",)
_DETAILS_KEYS = ("prompt_tokens_details", "input_tokens_details")
_CACHED_KEYS = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
_WRITTEN_KEYS = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")


Tokens = Annotated[int, msgspec.Meta(le=2**62)]
"""A number of tokens that a file may hold: whoever adds a table of them up must be able to."""


class CallUsage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Tokens of one successful model call, as the provider counted them.

    `total_tokens` is the provider's own total and may exceed prompt plus completion (some count hidden reasoning only there).
    """

    prompt_tokens: Tokens
    completion_tokens: Tokens
    total_tokens: Tokens

    @property
    def context_tokens(self) -> int:
        """Tokens that the call held in the model's context: prompt plus completion (E18)."""
        return self.prompt_tokens + self.completion_tokens


class UsageDetails(msgspec.Struct, frozen=True):
    """What a provider says about a call's tokens beyond their number. Each may be missing.

    `cached_tokens` and `cache_write_tokens` are parts of the prompt. `stated_cost` is the provider's own price of the call.
    """

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    stated_cost: float | None = None


class TrajectoryUsage(msgspec.Struct, frozen=True):
    """What a rollout's trajectory says about itself; each number may be missing on its own."""

    tokens: int | None = None
    max_context_tokens: int | None = None


class RolloutUsage(msgspec.Struct, frozen=True):
    """The two numbers of an `index.jsonl` line; None means that the key is left out."""

    tokens: int | None = None
    max_context_tokens: int | None = None


def read_usage(usage: object) -> CallUsage | None:
    """Read a provider's `usage` object (decoded JSON): OpenAI names or `input_tokens`/`output_tokens`.

    A missing total is the sum of the parts; a missing part is what the other leaves of the total. With a total alone the
    split is unknown and the total stands as the prompt, so that both sums of E18 stay right.

    None when there is no usage: not an object, no count at all, any count that is not a whole number from 0 to `MAX_COUNT`
    (booleans are no numbers), or nothing but zeros. Every call has a prompt, so all zeros is how some gateways spell
    "the provider did not say".
    """
    if not isinstance(usage, dict):
        return None
    stated = [_first(usage, keys) for keys in (_PROMPT_KEYS, _COMPLETION_KEYS, _TOTAL_KEYS)]
    prompt, completion, total = counts = [_count(value) for value in stated]
    if not any(counts) or stated.count(None) != counts.count(None):
        return None
    if total is None:
        total = (prompt or 0) + (completion or 0)
    if prompt is None:
        prompt = max(total - (completion or 0), 0)
    if completion is None:
        completion = max(total - prompt, 0)
    return CallUsage(prompt, completion, total)


def read_details(usage: object) -> UsageDetails | None:
    """Read the details of a provider's `usage` object: OpenAI's names, and Anthropic's and DeepSeek's at its top level.

    None when there are none; a detail that is no count is left out.
    """
    if not isinstance(usage, dict):
        return None
    inner = _first(usage, _DETAILS_KEYS)
    places = (inner, usage) if isinstance(inner, dict) else (usage,)
    cached, written = _first_count(places, _CACHED_KEYS), _first_count(places, _WRITTEN_KEYS)
    cost = usage.get("cost")
    stated = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < MAX_COUNT else None
    return None if cached is written is stated is None else UsageDetails(cached, written, stated)


def trajectory_usage(
    total_prompt_tokens: object, total_completion_tokens: object, steps: Iterable[tuple[object, object]]
) -> TrajectoryUsage:
    """Usage from a trajectory's `final_metrics` totals and the (prompt, completion) token counts of its steps.

    Of each pair either may be missing (None) or unusable, and counts as nothing. `tokens` comes from the totals alone;
    `max_context_tokens` from the steps alone.
    """
    return TrajectoryUsage(
        tokens=_sum_of_counts((total_prompt_tokens, total_completion_tokens)),
        max_context_tokens=max((context for step in steps if (context := _sum_of_counts(step)) is not None), default=None),
    )


def rollout_usage(calls: tuple[CallUsage, ...] | None, trajectory: TrajectoryUsage | None) -> RolloutUsage:
    """The usage of one rollout: from the bridge's calls if it counted any, else from the trajectory, else absent (E18)."""
    if calls:
        most = max(call.context_tokens for call in calls)
        return RolloutUsage(believed(call.total_tokens for call in calls), min(most, MAX_COUNT))
    if trajectory is not None:
        return RolloutUsage(trajectory.tokens, trajectory.max_context_tokens)
    return RolloutUsage()


def believed(counts: Iterable[int]) -> int:
    """The sum of counts, as far as a sum is believed."""
    return min(sum(counts), MAX_COUNT)


def _first(usage: dict[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        if (value := usage.get(key)) is not None:
            return value
    return None


def _first_count(places: tuple[dict[str, Any], ...], keys: tuple[str, ...]) -> int | None:
    for place in places:
        for key in keys:
            if (count := _count(place.get(key))) is not None:
                return count
    return None


def _count(value: object) -> int | None:
    """`value` if it is a number of tokens. JSON knows no integers, so 10.0 is one; its true and false are none."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def _sum_of_counts(values: Iterable[object]) -> int | None:
    counts = [count for value in values if (count := _count(value)) is not None]
    return sum(counts) if counts else None

"""What a model call costs in US dollars, where the price of the model is known (issue "bridge": cost per rollout).

Prices come from the config if it states any, else from the bundled table, and then only at the provider's own endpoint: a
server that lends a well-known model's name has prices of its own. A provider that states the cost of a call (OpenRouter) is
believed. What is not known is absent, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import msgspec

from osmosis.pure.price_table import TABLE
from osmosis.pure.provider_table import PROVIDERS
from osmosis.pure.providers import Endpoint, Wire
from osmosis.pure.usage import CallUsage, UsageDetails

_MILLION = 1_000_000
_STATES_COST = frozenset({"openrouter"})


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars a million tokens. Cached input and cache writing cost what input costs where they have no price.

    From `long_from` prompt tokens on, the whole call costs what `long` says.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    long_from: int | None = None
    long: ModelPrice | None = None


def price_of(endpoint: Endpoint, configured: ModelPrice | None = None) -> ModelPrice | None:
    """The price at `endpoint`; `configured` wins. None when it is not known."""
    if configured is not None:
        return configured
    usual = PROVIDERS[endpoint.provider][0] if endpoint.provider in PROVIDERS else ""
    if endpoint.base_url != (usual or "").rstrip("/") or (not usual and endpoint.wire is not Wire.NATIVE):
        return None
    return _bundled().get(f"{endpoint.provider}/{endpoint.model}")


def call_cost(
    endpoint: Endpoint, price: ModelPrice | None, usage: CallUsage | None, details: UsageDetails | None
) -> float | None:
    """The cost of one call, from what the provider states, else from its tokens and `price`."""
    if details is not None and details.stated_cost is not None and endpoint.provider in _STATES_COST:
        return details.stated_cost
    if price is None or usage is None:
        return None
    if price.long is not None and price.long_from is not None and usage.prompt_tokens > price.long_from:
        price = price.long
    cached = min((details and details.cached_tokens) or 0, usage.prompt_tokens)
    written = min((details and details.cache_write_tokens) or 0, usage.prompt_tokens - cached)
    # Some providers count hidden reasoning in the total alone; it is billed as output.
    completion = max(usage.completion_tokens, usage.total_tokens - usage.prompt_tokens)
    dollars = (
        (usage.prompt_tokens - cached - written) * price.input
        + cached * (price.input if price.cached_input is None else price.cached_input)
        + written * (price.input if price.cache_write is None else price.cache_write)
        + completion * price.output
    )
    return dollars / _MILLION


def total_cost(costs: Iterable[float | None]) -> float | None:
    """The sum, rounded to a billionth of a dollar; None when there is nothing to add or one of them is not known."""
    known = list(costs)
    if not known or any(cost is None for cost in known):
        return None
    return round(sum(cost for cost in known if cost is not None), 9)


@cache
def _bundled() -> dict[str, ModelPrice]:
    prices: dict[str, ModelPrice] = {}
    provider = ""
    for line in TABLE.splitlines():
        if line.startswith("["):
            provider = line[1:-1]
            continue
        numbers, _, names = line.partition(": ")
        price = _read(numbers)
        prices |= {f"{provider}/{name}": price for name in names.split()}
    return prices


def _read(text: str) -> ModelPrice:
    usual, _, long = text.partition(" >")
    if not long:
        return ModelPrice(*_numbers(usual))
    start, _, numbers = long.partition(" ")
    return ModelPrice(*_numbers(usual), long_from=int(start), long=ModelPrice(*_numbers(numbers)))


def _numbers(text: str) -> tuple[float, float, float | None, float | None]:
    given, answered, cached, written = (None if number == "-" else float(number) for number in text.split())
    return given or 0.0, answered or 0.0, cached, written

"""What tokens cost, as a person states it; no price is ever guessed (issue 8)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from osmosis.pure.errors import OsmosisError, Problem


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million prompt tokens, and for a million completion tokens."""

    prompt: float
    completion: float


def read_prices(texts: Iterable[str]) -> dict[str, Price]:
    """`MODEL=PROMPT,COMPLETION` in US dollars for a million tokens. Raises OsmosisError with every text that is not."""
    read: dict[str, Price] = {}
    problems = []
    for text in texts:
        model, equals, amounts = text.rpartition("=")
        try:
            prompt, completion = (float(amount) for amount in amounts.split(","))
        except ValueError:
            prompt = completion = -1.0
        if equals and model and 0 <= prompt < float("inf") and 0 <= completion < float("inf"):
            read[model] = Price(prompt, completion)
        else:
            problems.append(Problem("--price", f"{text!r} is not MODEL=PROMPT,COMPLETION"))
    if problems:
        raise OsmosisError(
            "A price cannot be read.",
            problems=problems,
            hint="Write US dollars for a million tokens: --price openai/gpt-5-mini=0.25,2.00",
        )
    return read

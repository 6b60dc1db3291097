"""What judging has used: calls, tokens and dollars, counted exactly (issue 7; usage as in E18).

A call counts once it was answered with a completion, also when its reply turned out to be no judgement: it was paid for all the
same. Refused and failed calls have no usage and count as `refused`.
"""

from __future__ import annotations

import msgspec

from osmosis.pure.model_prices import total_cost
from osmosis.pure.usage import CallUsage


class JudgeUsage(msgspec.Struct, frozen=True):
    """Sums over completed calls. `unreported` calls brought no usage, so the token sums leave them out.

    `cost_usd` is in US dollars; None as soon as the cost of one call is not known, since a part of a sum would read as the sum.
    """

    calls: int = 0
    refused: int = 0
    unreported: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cost_usd: float | None = None

    def after_completion(self, usage: CallUsage | None, cost: float | None = None) -> JudgeUsage:
        """With one more completed call, and what it cost if that is known."""
        counted = usage or CallUsage(0, 0, 0)
        return JudgeUsage(
            calls=self.calls + 1,
            refused=self.refused,
            unreported=self.unreported + (usage is None),
            prompt_tokens=self.prompt_tokens + counted.prompt_tokens,
            completion_tokens=self.completion_tokens + counted.completion_tokens,
            total_tokens=self.total_tokens + counted.total_tokens,
            cost_usd=total_cost((self.cost_usd, cost) if self.calls else (cost,)),
        )

    def after_refusal(self) -> JudgeUsage:
        """With one more call that brought no completion."""
        return msgspec.structs.replace(self, refused=self.refused + 1)

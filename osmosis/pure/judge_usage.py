"""What judging has used: calls and tokens, counted exactly (issue 7; usage as in E18).

A call counts once it was answered with a completion, also when its reply turned out to be no judgement: it was paid for all the
same. Refused and failed calls have no usage and count as `refused`.
"""

from __future__ import annotations

import msgspec

from osmosis.pure.usage import CallUsage


class JudgeUsage(msgspec.Struct, frozen=True):
    """Sums over completed calls. `unreported` calls brought no usage, so the token sums leave them out."""

    calls: int = 0
    refused: int = 0
    unreported: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0

    def after_completion(self, usage: CallUsage | None) -> JudgeUsage:
        """With one more completed call."""
        if usage is None:
            return msgspec.structs.replace(self, calls=self.calls + 1, unreported=self.unreported + 1)
        return msgspec.structs.replace(
            self,
            calls=self.calls + 1,
            prompt_tokens=self.prompt_tokens + usage.prompt_tokens,
            completion_tokens=self.completion_tokens + usage.completion_tokens,
            total_tokens=self.total_tokens + usage.total_tokens,
        )

    def after_refusal(self) -> JudgeUsage:
        """With one more call that brought no completion."""
        return msgspec.structs.replace(self, refused=self.refused + 1)

    def plus(self, other: JudgeUsage) -> JudgeUsage:
        """Both together."""
        return JudgeUsage(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))

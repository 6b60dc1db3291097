"""The grader: is the stated answer the label's number?"""

from collections.abc import Mapping, Sequence
from typing import Any

from calculator import number
from prompts import RESULT
from solver import value_at

from osmosis_ai.rollout import Grader, GraderContext

Conversation = Sequence[Mapping[str, Any]]


class AnswerGrader(Grader):
    """Reward 1 for the right number, 0 for any other answer and for none."""

    async def grade(self, ctx: GraderContext) -> None:
        """Set the reward and the metrics, and leave the conversation as a page among the artifacts."""
        if ctx.sample is None or ctx.label is None:
            raise ValueError("grading needs a sample and a label")
        answer, result = stated_answer(ctx.sample.messages), last_result(ctx.sample.messages)
        correct = same_number(answer, ctx.label)
        ctx.set_reward(float(correct))
        ctx.sample.metrics = {
            **ctx.sample.metrics,
            "calculation_correct": float(same_number(result, ctx.label)),
            "answer_follows_calculator": float(same_number(answer, result)),
        }
        if ctx.artifacts_dir is not None:
            page = worksheet(ctx.sample.messages, "right" if correct else f"wrong, the answer is {ctx.label}")
            (ctx.artifacts_dir / "worksheet.md").write_text(page, encoding="utf-8")


def stated_answer(messages: Conversation) -> str:
    """The answer in the last message; empty when the conversation ended without one."""
    last = messages[-1]
    return value_at(last["content"], "answer") if last["role"] == "assistant" else ""


def last_result(messages: Conversation) -> str:
    """The calculator's last word; empty when it was never asked."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    return str(results[-1]).removeprefix(RESULT) if results else ""


def same_number(left: str, right: str) -> bool:
    """Whether both texts spell the same number (`7`, `7.0`)."""
    return number(left) is not None and number(left) == number(right)


def worksheet(messages: Conversation, verdict: str) -> str:
    """The conversation after the instructions, and the verdict, as a page to read."""
    lines = [f"**{message['role']}**: {message['content']}" for message in messages if message["role"] != "system"]
    return "\n\n".join([*lines, f"**verdict**: {verdict}"]) + "\n"

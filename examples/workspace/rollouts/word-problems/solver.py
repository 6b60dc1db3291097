"""The workflow: a loop of model and tool.

The model writes a calculation, the calculator works it out, and the model reads the result and states the answer. A calculation
that makes no sense goes back to the model with the reason.
"""

import json
from typing import Any

from calculator import CalculatorError, calculate, written
from model import complete
from prompts import ANSWER, EXPRESSION, INSTRUCTIONS, RESULT

from osmosis_ai.rollout import (
    AgentWorkflow,
    AgentWorkflowConfig,
    AgentWorkflowContext,
    AgentWorkflowOutput,
    ConcurrencyConfig,
    MessageDict,
    RolloutContext,
    get_rollout_context,
)


class SolverConfig(AgentWorkflowConfig):
    """How the model is asked, and how many rollouts run at a time."""

    name: str = "word-problems"
    description: str | None = "Solves word problems with a calculator"
    concurrency: ConcurrencyConfig = ConcurrencyConfig(max_concurrent=32)
    temperature: float = 0.4
    max_tokens: int = 48
    max_calculations: int = 3


class Solver(AgentWorkflow[SolverConfig]):
    """Calculations until one works out, then the answer."""

    async def run(self, ctx: AgentWorkflowContext[SolverConfig]) -> AgentWorkflowOutput:
        """Solve the problem of `ctx.prompt`. Returns the whole conversation, and counts of what happened."""
        config, context = self.config or SolverConfig(), get_rollout_context()
        if context is None:
            raise RuntimeError("the workflow runs outside a rollout")
        conversation: list[MessageDict] = [{"role": "system", "content": INSTRUCTIONS}, *ctx.prompt]
        calls = errors = 0
        for _ in range(config.max_calculations):
            reply = await ask(context, config, conversation, EXPRESSION)
            calls += 1
            result, worked = use_calculator(value_at(reply["content"], "expression"))
            conversation += [as_tool_call(reply, f"call-{calls}"), tool_result(result, f"call-{calls}")]
            if worked:
                conversation.append(await ask(context, config, conversation, ANSWER))
                calls += 1
                break
            errors += 1
        return AgentWorkflowOutput(
            messages=conversation, metrics={"model_calls": float(calls), "calculator_errors": float(errors)}
        )


async def ask(
    context: RolloutContext, config: SolverConfig, conversation: list[MessageDict], response_format: dict[str, Any]
) -> MessageDict:
    """The model's reply to the conversation so far."""
    return await complete(
        context,
        {
            "messages": [as_sent(message) for message in conversation],
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "response_format": response_format,
        },
    )


def as_sent(message: MessageDict) -> MessageDict:
    """`message` in the plain roles that every chat model knows: small models were not trained on tool messages."""
    role = "user" if message["role"] == "tool" else message["role"]
    return {"role": role, "content": message["content"]}


def use_calculator(expression: str) -> tuple[str, bool]:
    """What the calculator says to `expression`, and whether that is a result."""
    try:
        return f"{RESULT}{written(calculate(expression))}", True
    except CalculatorError as error:
        return f"{RESULT}error: {error}. Write another calculation.", False


def as_tool_call(reply: MessageDict, call_id: str) -> MessageDict:
    """`reply` with the tool call that the workflow reads in it, so that a trajectory shows it as one."""
    function = {"name": "calculator", "arguments": reply["content"]}
    return {**reply, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def tool_result(text: str, call_id: str) -> MessageDict:
    """The tool message that answers the call `call_id`."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def value_at(reply: str, key: str) -> str:
    """The value of `key` in the JSON object `reply` as text, or the whole reply when it is none or has no such key."""
    try:
        return str(json.loads(reply)[key])
    except (ValueError, KeyError, TypeError, RecursionError):
        return reply

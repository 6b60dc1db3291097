"""Contexts for calling workflows, graders and agent loops directly, without a server."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from osmosis.shell.remote_rollout.agent_loop import RolloutAgentLoop, RolloutContext
from osmosis.shell.remote_rollout.llm_client import CompletionsResult
from osmosis.shell.remote_rollout.schemas import MessageDict, RolloutMetrics, RolloutRequest
from osmosis.shell.rollout.context import AgentWorkflowContext, GraderContext
from osmosis.shell.rollout.types.sample import RolloutSample


class ScriptedLLM:
    """A model for one rollout: says `replies` (texts or whole messages) in turn. `calls` holds the messages of each turn."""

    def __init__(self, replies: Iterable[str | MessageDict]) -> None:
        self._replies = iter(replies)
        self.calls: list[list[MessageDict]] = []

    async def chat_completions(self, messages: list[MessageDict], **kwargs: Any) -> CompletionsResult:
        """The next reply. Raises AssertionError when there is none left."""
        self.calls.append([dict(message) for message in messages])
        reply = next(self._replies, None)
        if reply is None:
            raise AssertionError("the scripted model has no reply left")
        message = {"role": "assistant", "content": reply} if isinstance(reply, str) else reply
        return CompletionsResult(message=message, finish_reason="tool_calls" if message.get("tool_calls") else "stop")

    def get_metrics(self) -> RolloutMetrics:
        """The number of turns."""
        return RolloutMetrics(num_llm_calls=len(self.calls))


def loop_context(
    loop: RolloutAgentLoop,
    messages: list[MessageDict],
    replies: Iterable[str | MessageDict] = (),
    *,
    rollout_id: str = "test",
    debug_dir: str | Path | None = None,
    **fields: Any,
) -> RolloutContext:
    """A context to pass to an agent loop's `run`, with the loop's own tools. `fields` are those of the request."""
    request = RolloutRequest(
        rollout_id=rollout_id,
        server_url="http://localhost",
        messages=messages,
        completion_params=fields.pop("completion_params", {}),
        **fields,
    )
    directory = None if debug_dir is None else str(debug_dir)
    return RolloutContext(request=request, tools=loop.get_tools(request), llm=ScriptedLLM(replies), _debug_dir=directory)


def workflow_context(
    prompt: str | list[MessageDict], *, metadata: dict[str, Any] | None = None, artifacts_dir: Path | None = None
) -> AgentWorkflowContext[Any]:
    """A context to pass to an `AgentWorkflow`'s `run`. A string is one user message."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return AgentWorkflowContext(prompt=messages, metadata=metadata, artifacts_dir=artifacts_dir)


def grader_context(
    solution: str | list[MessageDict], label: str | None = None, *, metadata: dict[str, Any] | None = None
) -> GraderContext:
    """A context to pass to a `Grader`'s `grade`. A string is one message of the assistant."""
    messages = [{"role": "assistant", "content": solution}] if isinstance(solution, str) else solution
    return GraderContext(label=label, sample=RolloutSample(messages=messages, label=label), metadata=metadata)

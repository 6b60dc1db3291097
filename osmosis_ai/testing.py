"""Stand-ins for testing rollouts and rewards: a fake model server, a fake trainer, contexts."""

from osmosis.shell.testing.contexts import ScriptedLLM, grader_context, loop_context, workflow_context
from osmosis.shell.testing.model_server import FakeModelServer, chat_completion, judge_reply
from osmosis.shell.testing.trainer import (
    FakeTrainer,
    RolloutCompletionTracker,
    create_mock_trainer_app,
    fake_prompt_token_ids,
    fake_token_ids,
)

__all__ = [
    "FakeModelServer",
    "FakeTrainer",
    "RolloutCompletionTracker",
    "ScriptedLLM",
    "chat_completion",
    "create_mock_trainer_app",
    "fake_prompt_token_ids",
    "fake_token_ids",
    "grader_context",
    "judge_reply",
    "loop_context",
    "workflow_context",
]

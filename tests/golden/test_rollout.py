"""Exact bytes of what travels between runner and server, and of what a rollout leaves behind (rollout_protocol section 19)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from osmosis.pure.ownership import Run, Server, encode_logs, ownership_record
from osmosis.pure.preview import Preview, encode_preview
from osmosis.pure.protocol import (
    CancelRequest,
    CancelResponse,
    ErrorCategory,
    InitRequest,
    InitResponse,
    ResultResponse,
    RolloutStatus,
    Sample,
    decode_cancel_request,
    decode_cancel_response,
    decode_init_request,
    decode_init_response,
    decode_result,
    encode,
)
from osmosis.pure.redaction import Redactor
from osmosis.pure.trajectory import decode_trajectory, encode_trajectory
from osmosis.pure.trajectory_conversion import Conversation, convert_conversation
from osmosis.shell.rollout.trajectory import save_trajectory
from osmosis.shell.rollout.types.execution import ExecutionResult
from osmosis.shell.rollout.types.sample import RolloutSample

PROMPT = [{"role": "user", "content": "2*2?"}]
BODIES: dict[str, tuple[Any, Any]] = {
    "start": (
        InitRequest(initial_messages=PROMPT, rollout_id="r", chat_completions_url="http://c"),
        decode_init_request,
    ),
    "started": (
        InitResponse("r-ok", RolloutStatus.QUEUED, "tVtRmSXMN-KnETmzKLXlstXhIfSXXhNB6nO-uuKra1o", 1.0, 4.0),
        decode_init_response,
    ),
    "pending": (ResultResponse("r-slow", RolloutStatus.RUNNING), decode_result),
    "success": (
        ResultResponse(
            "r-out",
            RolloutStatus.SUCCESS,
            Sample([*PROMPT, {"role": "assistant", "content": "out"}], "4", 1.0, False, {"turns": 1.0, "acc": 1}, {}),
        ),
        decode_result,
    ),
    "failure": (
        ResultResponse("r-boom", RolloutStatus.FAILURE, None, "workflow exploded", ErrorCategory.AGENT_ERROR),
        decode_result,
    ),
    "lease-expired": (
        ResultResponse("r-lease", RolloutStatus.FAILURE, None, "polling lease expired", ErrorCategory.LEASE_EXPIRED),
        decode_result,
    ),
    "cancel": (CancelRequest(ids=["r"]), decode_cancel_request),
    "cancelled": (CancelResponse({"r-dup": "cancelled_running", "nope": "not_found"}), decode_cancel_response),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(golden, name):
    """What we send has the bytes that the public package's has, and we read those bytes as what they say."""
    record, decode = BODIES[name]
    golden(f"rollout/{name}.json", encode(record))
    assert decode(encode(record)) == record


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Use the tool."},
    {"role": "user", "content": "2*2, or 2÷2?"},
    {
        "role": "assistant",
        "content": None,
        "created_at": 1700000000,
        "model": "m-1",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "mul", "arguments": '{"a": 2}'}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 2}},
    },
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "assistant", "content": "final", "reasoning_content": "hm"},
]


def test_trajectory(golden):
    """The document as the public server writes it, but for the version."""
    conversation = Conversation(
        rollout_id="r-ok",
        messages=MESSAGES,
        reward=1.0,
        metrics={"acc": 1, "scores": [1, 0.5], "nan": float("nan")},
        request_label="4",
        request_metadata={"behave": "ok", "none": None},
        request_extra_fields={"row_index": 0, "run_index": 0},
    )
    data = encode_trajectory(convert_conversation(conversation, sdk_version="0.3.8"))
    golden("rollout/trajectory.json", data)
    assert encode_trajectory(decode_trajectory(data, "trajectory.json")) == data


async def test_files_of_a_rollout(golden, tmp_path):
    """The wire sample and the diagnostics that lie beside the trajectory (ruling 27)."""
    sample = RolloutSample(messages=MESSAGES, label="4", reward=1.0, metrics={"pair": (1, 2), "nan": float("nan")})
    result = ExecutionResult(
        status=RolloutStatus.SUCCESS, sample=sample, extra_fields={"z": 1, "a": float("inf"), "path": Path("x"), "é": {2: None}}
    )
    await save_trajectory(rollout_id="r", result=result, artifact_root=tmp_path)
    directory = tmp_path / "r"
    assert sorted(path.name for path in directory.iterdir()) == ["diagnostics.json", "sample.json", "trajectory.json"]
    golden("rollout/sample.json", (directory / "sample.json").read_bytes())
    golden("rollout/diagnostics.json", (directory / "diagnostics.json").read_bytes())
    json.loads((directory / "trajectory.json").read_bytes())


def test_ownership_records(golden):
    """OTLP's JSON encoding, every attribute with its type; names that are not known are left out."""
    facts: dict[str, Any] = {"rollout_id": "r-1", "status": RolloutStatus.RUNNING, "time_unix_nano": 1_700_000_000_000_000_001}
    full = ownership_record(Server("s-1", "mine", "prod"), Run("run-1", "happy-fox-1"), sequence=1, **facts)
    bare = ownership_record(Server("s-1"), Run(), sequence=2, **facts)
    assert full is not None
    assert bare is not None
    golden("rollout/ownership.json", encode_logs([full, bare], sdk_version="0.3.10"))


def test_preview(golden):
    """Compact ASCII: no metrics, no keys, numbered steps."""
    preview = Preview("pv-1", MESSAGES, RolloutStatus.SUCCESS, 4, "2026-11-30T12:40:34.603753+00:00", turn=3)
    golden("rollout/preview.json", encode_preview(preview, Redactor(["final"]), sdk_version="0.3.8"))

"""The recorded exchange of the remote rollout API, byte for byte (contract `legacy_api.md` section 7.7)."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from osmosis_ai import create_app
from osmosis_ai.testing import FakeTrainer
from tests.integration.agent_loops import CALL, Adder, Scripted, explode, forget, give_up, served, unspeakable


def normal(body: dict[str, Any], trainer: FakeTrainer) -> bytes:
    """A body with the trainer's port and the times replaced, as golden bytes."""
    text = json.dumps(body, indent=1).replace(trainer.url, "http://127.0.0.1:P")
    decoded = json.loads(text)
    for name, value in (decoded.get("metrics") or {}).items():
        if name.endswith("_ms") and name != "tool_latency_ms":
            assert value >= 0
            decoded["metrics"][name] = "T"
    return json.dumps(decoded, indent=1).encode() + b"\n"


def test_the_recorded_exchange(golden):
    """Every body of a rollout with a tool call has the members, values and order of the recorded exchange."""
    replies = [{"role": "assistant", "content": "use tool", "tool_calls": [CALL]}, "#### 8"]
    with FakeTrainer(replies) as trainer, served(create_app(Adder())) as url:
        request = trainer.init_request("r1", [{"role": "user", "content": "5+3?"}], api_key="cbkey")
        request["completion_params"] = {"temperature": 0.7, "max_tokens": 64, "stop": "##"}
        response = httpx.post(f"{url}/v1/rollout/init", json=request)
        assert response.status_code == 202
        completed = trainer.wait_for("r1", 90)
        assert set(trainer.authorizations) == {"Bearer cbkey"}
        golden("remote_rollout/init_response.json", response.content + b"\n")
        golden("remote_rollout/turn_1.json", json.dumps(trainer.turns[0]).encode() + b"\n")
        golden("remote_rollout/turn_2.json", json.dumps(trainer.turns[1]).encode() + b"\n")
        golden("remote_rollout/completed.json", normal(completed, trainer))


@pytest.mark.parametrize(
    ("run", "file"),
    [(explode, "exploded"), (give_up, "graceful"), (forget, "returned_nothing"), (unspeakable, "nan_reward")],
)
def test_the_end_of_a_rollout_that_failed(golden, run, file):
    """The trainer hears of every failure, in the recorded form."""
    with FakeTrainer() as trainer, served(create_app(Scripted(run))) as url:
        assert httpx.post(f"{url}/v1/rollout/init", json=trainer.init_request("r2", [])).status_code == 202
        golden(f"remote_rollout/{file}.json", normal(trainer.wait_for("r2", 90), trainer))


def test_health_report(golden):
    """The recorded members in the recorded order."""
    with served(create_app(Adder())) as url:
        golden("remote_rollout/health.json", httpx.get(f"{url}/health").content + b"\n")

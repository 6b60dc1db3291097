"""The public `osmosis-ai` 0.3.8 as the other side of the wire: its client on our server, our client on its server.

The environment of the public package is made by the fixture `public_python`.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from osmosis import __version__
from osmosis.pure import protocol
from osmosis.pure.journal import Status
from osmosis.pure.outcome import classify
from osmosis.pure.trajectory import decode_trajectory
from tests.integration.rollout_server_process import rollout_server
from tests.interop.drive import drive

pytestmark = pytest.mark.interop

PUBLIC_VERSION = "0.3.8"


def rollout(rollout_id: str, metadata: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """Arguments for `run_rollout`."""
    return {
        "initial_messages": [{"role": "user", "content": "2*2?"}],
        "chat_completions_url": "http://127.0.0.1:9/v1",
        "rollout_id": rollout_id,
        "label": "4",
        "metadata": metadata,
        "extra_fields": {"row_index": 0, "run_index": 0},
    } | arguments


def by_id(results: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Results by rollout, without how long each had to wait for its place: that is the machine's doing."""
    for result in results:
        result["err_message"] = re.sub(r" \([\d.]+s of it spent queued\)", "", result["err_message"] or "") or None
    return {result["rollout_id"]: result for result in results}


# A mixed data set: every way a rollout can end.
ROLLOUTS = [
    rollout("ok"),
    rollout("output", {"behave": "output"}),
    rollout("source", {"behave": "source"}),
    rollout("nested null", {"behave": "ok", "none": None, "list": [1, 2, {"a": None}]}),
    rollout("boom", {"behave": "boom"}),
    rollout("value", {"behave": "value"}),
    rollout("gave up", {"behave": "gave up"}),
    rollout("sandbox", {"behave": "sandbox"}),
    rollout("object", {"behave": "object"}),
    rollout("grader boom", {"grade": "boom"}),
    rollout("no reward", {"grade": "nothing"}),
    rollout("skipped", {"grade": "remove"}),
    rollout("odd metrics", {"grade": "odd metrics"}),
    rollout("late workflow", {"behave": "hang"}, agent_timeout_sec=0.5),
    rollout("late grader", {"grade": "hang"}, grader_timeout_sec=0.5),
    rollout("ungraded", grade=False),
    rollout("cancelled", {"behave": "hang"}, cancel=True),
]

# Where the two differ on purpose (docs/decisions/sdk-differences.md), or in words that name a library's version.
OTHER_TRAJECTORIES = {"odd metrics", "object"}


@pytest.fixture(scope="module")
def our_root(tmp_path_factory):
    """Where our server's rollouts leave their files."""
    return tmp_path_factory.mktemp("ours")


@pytest.fixture(scope="module")
def public_root(tmp_path_factory):
    """Where the public server's rollouts leave their files."""
    return tmp_path_factory.mktemp("public")


@pytest.fixture(scope="module")
def ours_by_public_client(public_python, our_root):
    """Our server, driven by the public client."""
    with rollout_server(our_root) as server:
        finished = subprocess.run(
            [public_python, str(Path(__file__).with_name("drive.py")), server.url],
            input=json.dumps(ROLLOUTS),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    assert finished.returncode == 0, finished.stderr
    return by_id(json.loads(finished.stdout))


@pytest.fixture(scope="module")
def public_by_our_client(public_python, public_root):
    """The public server, running the same entrypoint in its own environment, driven by our client."""
    with rollout_server(public_root, python=public_python) as server:
        health = server.http.get("/health")
        assert health.headers[protocol.SDK_VERSION_HEADER] == PUBLIC_VERSION
        assert protocol.decode_health(health.content).capacity == 4
        results = asyncio.run(drive(server.url, ROLLOUTS))
    return by_id(results)


@pytest.mark.parametrize("rollout_id", [item["rollout_id"] for item in ROLLOUTS])
def test_both_servers_tell_both_clients_the_same(ours_by_public_client, public_by_our_client, rollout_id):
    """Status, sample, message and category of every kind of ending."""
    assert ours_by_public_client[rollout_id] == public_by_our_client[rollout_id]


def test_both_are_classified_alike(ours_by_public_client, public_by_our_client):
    """What an evaluation makes of each row does not depend on which package the rollout has."""

    def classified(results):
        return {name: classify(protocol.decode_result(json.dumps(body).encode())) for name, body in results.items()}

    ours = classified(ours_by_public_client)
    assert ours == classified(public_by_our_client)
    assert {outcome.status for outcome in ours.values() if outcome} == set(Status)
    assert ours["cancelled"] is None


@pytest.mark.parametrize("rollout_id", [item["rollout_id"] for item in ROLLOUTS])
def test_both_leave_the_same_trajectory(ours_by_public_client, public_by_our_client, our_root, public_root, rollout_id):
    """The same bytes but for the version, or none on either side; our strict reader accepts the public document."""
    if rollout_id in OTHER_TRAJECTORIES:
        assert (our_root / rollout_id / "trajectory.json").exists()
        return
    ours, public = (root / rollout_id / "trajectory.json" for root in (our_root, public_root))
    assert ours.exists() == public.exists()
    if public.exists():
        decode_trajectory(public.read_bytes(), "the public trajectory")
        expected = public.read_text().replace(f'"version": "{PUBLIC_VERSION}"', f'"version": "{__version__}"')
        assert ours.read_text() == expected

"""Starting the test rollout server as a process of its own, and talking to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from osmosis.pure.protocol import ARTIFACT_ROOT_ENV, INSTANCE_ID_ENV, POLLING_LEASE_HEADER, rollout_path

HERE = Path(__file__).parent
ENTRYPOINT = HERE / "rollout_entrypoint.py"
BOOTSTRAP = HERE.parents[1] / "osmosis" / "shell" / "evaluation" / "server_bootstrap.py"
INSTANCE_ID = "deadbeef"


@dataclass
class RolloutServer:
    """A running server: its process, where it answers, where its rollouts' files go."""

    process: subprocess.Popen[str]
    url: str
    root: Path
    http: httpx.Client
    leases: dict[str, str] = field(default_factory=dict)

    def start(self, rollout_id: str, metadata: Mapping[str, Any] | None = None, **fields: Any) -> httpx.Response:
        """`POST /rollout`; the lease is kept for `poll`."""
        body = {
            "initial_messages": [{"role": "user", "content": "2*2?"}],
            "rollout_id": rollout_id,
            "chat_completions_url": "http://127.0.0.1:9/v1",
            "label": "4",
            "metadata": metadata,
            **fields,
        }
        response = self.http.post("/rollout", json=body)
        if response.status_code == httpx.codes.ACCEPTED:
            self.leases[rollout_id] = response.json()["polling_lease_token"]
        return response

    def poll(self, rollout_id: str, token: str | None = None) -> httpx.Response:
        """One long poll."""
        lease = self.leases.get(rollout_id, "none") if token is None else token
        return self.http.get(rollout_path(rollout_id), headers={POLLING_LEASE_HEADER: lease})

    def result(self, rollout_id: str) -> dict[str, Any]:
        """Poll until the rollout has ended; its final body."""
        while True:
            response = self.poll(rollout_id)
            assert response.status_code == httpx.codes.OK, response.text
            body: dict[str, Any] = response.json()
            if body["status"] in ("success", "failure", "cancelled"):
                return body

    def run(self, rollout_id: str, metadata: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """Start a rollout and wait for its final body."""
        response = self.start(rollout_id, metadata, **fields)
        assert response.status_code == httpx.codes.ACCEPTED, response.text
        return self.result(rollout_id)

    def cancel(self, **selector: Any) -> httpx.Response:
        """`POST /rollout/cancel`."""
        return self.http.post("/rollout/cancel", json=selector)

    def status(self, rollout_id: str) -> str:
        """What the next poll says."""
        return str(self.poll(rollout_id).json()["status"])


@contextmanager
def rollout_server(
    root: Path,
    *,
    backend: str = "local",
    python: str = sys.executable,
    entrypoint: Path = ENTRYPOINT,
    variables: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[RolloutServer]:
    """A server under the bootstrap, stopped by SIGKILL at the end unless the test has stopped it.

    `python` is the interpreter of the rollout's environment, whose SDK need not be this one; `variables` go into its
    environment.
    """
    environment = {
        **os.environ,
        **(variables or {}),
        "TEST_BACKEND": backend,
        "TEST_OPTIONS": json.dumps(options),
        ARTIFACT_ROOT_ENV: str(root),
        INSTANCE_ID_ENV: INSTANCE_ID,
        "PYTHONUNBUFFERED": "1",
    }
    process = subprocess.Popen(
        [python, str(BOOTSTRAP), str(entrypoint)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        assert port, "the server ended before it listened"
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as http:
            http.get("/health")  # Answered only once signals are handled, whatever the answer.
            yield RolloutServer(process, f"http://127.0.0.1:{port}", root, http)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

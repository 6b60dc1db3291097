"""The entrypoint of the sandbox tests: a HarborBackend as the variable HARBOR_TEST describes it."""

import json
import os
from pathlib import Path
from typing import Any

import uvicorn
from harbor.models.trial.config import EnvironmentConfig
from harbor.trial.queue import TrialQueue

from osmosis_ai.rollout.backend.harbor import HarborBackend
from osmosis_ai.rollout.server import create_rollout_server

if __name__ == "__main__":
    described = json.loads(os.environ["HARBOR_TEST"])
    agent = described["agent"]
    workflow: dict[str, Any] = {"code_dir": Path(__file__).parent, "grader": "probe.work:Exact"} if ":" in agent else {}
    backend = HarborBackend(
        orchestrator=TrialQueue(described.get("n_concurrent", 4)),
        tasks_dir=Path(described["tasks"]),
        agent=agent,
        environment_config=EnvironmentConfig(**described["environment"]),
        trials_dir=Path(described["trials"]),
        max_queue_depth=64,
        **workflow,
    )
    port = int(os.environ["_OSMOSIS_ROLLOUT_PORT"])
    uvicorn.run(create_rollout_server(backend=backend), host="127.0.0.1", port=port, log_level="warning")

"""How a run starts its rollout server, and whether it can do so before anybody was asked anything (E20, decision 0061)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.preparation import Preparation
from osmosis.shell.evaluation.standby import Launch, Standby, standing_by


def launch_of(preparation: Preparation, environment: Mapping[str, str]) -> Launch:
    """The launch of a run's server in `environment`, with an identity of its own."""
    return Launch(
        project=preparation.project,
        entrypoint=preparation.config.experiment.entrypoint,
        environment=dict(environment),
        run_directory=preparation.directory.path,
        trials=preparation.directory.trials,
        instance_id=uuid.uuid4().hex,
        created_at=utc_now(),
        port=preparation.request.rollout_port,
    )


@contextmanager
def early_standby(preparation: Preparation) -> Iterator[Standby | None]:
    """A standby for the time of a question and of what follows it; None where a secret is still to be read or asked for."""
    names = preparation.config.secret_names
    if preparation.request.secrets_file or not all(os.environ.get(name) for name in names):
        yield None
        return
    with standing_by(launch_of(preparation, {**os.environ, **preparation.config.env})) as standby:
        yield standby

"""How a run starts its rollout server, and whether it can do so before anybody was asked anything (E20, decision 0061)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.head_start import take_over
from osmosis.shell.evaluation.preparation import Preparation
from osmosis.shell.evaluation.standby import Launch, Standby, Start, standing_by


def start_of(preparation: Preparation, environment: Mapping[str, str]) -> Start:
    """What a run's server begins with."""
    return Start(
        project=preparation.project,
        entrypoint=preparation.config.experiment.entrypoint,
        environment=dict(environment),
        port=preparation.request.rollout_port,
    )


def launch_of(preparation: Preparation, environment: Mapping[str, str]) -> Launch:
    """The launch of a run's server in `environment`."""
    return Launch(
        start=start_of(preparation, environment),
        run_directory=preparation.directory.path,
        trials=preparation.directory.trials,
        created_at=utc_now(),
    )


@contextmanager
def early_standby(preparation: Preparation) -> Iterator[Standby | None]:
    """A standby for the time of a question and of what follows it; None where a secret is still to be read or asked for."""
    names = preparation.config.secret_names
    if preparation.request.secrets_file or not all(os.environ.get(name) for name in names):
        yield None
        return
    start = start_of(preparation, {**os.environ, **preparation.config.env})
    with standing_by(start, take_over(start)) as standby:
        yield standby

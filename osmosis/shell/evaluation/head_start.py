"""Starts the Python that a run will need while the command line is still being understood (issue 6, decision 0061).

Understanding it takes longer than everything that comes before the rollout server's process can start. So the words are guessed
at: which config, and is the run a new one. Nothing depends on the guess. Whoever starts the server takes the process over if it
began with exactly what the run needs, and it ends unused otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from osmosis.pure.config import EvalConfig, decode_config
from osmosis.pure.run_guess import guess_run
from osmosis.shell.evaluation.workspace import DEFAULT_OUTPUT, ROLLOUTS_DIRECTORY, locate_config

if TYPE_CHECKING:
    from osmosis.shell.evaluation.standby import Standby, Start

_ahead: list[Standby] = []


@contextmanager
def head_start(words: Sequence[str]) -> Iterator[None]:
    """While the command `words` runs, a process may be ahead of it. Raises nothing of its own."""
    try:
        new = _new_run(words, Path.cwd())
        if new is not None:
            _begin(*new)
    except Exception:  # noqa: BLE001 - a guess cannot fail: the command finds out for itself, and says so
        pass
    try:
        yield
    finally:
        while _ahead:
            _ahead.pop().abandon()


def take_over(start: Start) -> Standby | None:
    """The process that is ahead, if it began with `start`; from then on it is the caller's to end."""
    return _ahead.pop() if _ahead and _ahead[0].begun == start else None


def _new_run(words: Sequence[str], directory: Path) -> tuple[Path, EvalConfig] | None:
    """Workspace and config of the new run that these words seem to ask for; None where they ask for something else."""
    guess = guess_run(words)
    if guess is None:
        return None
    workspace, config_path = locate_config(Path(guess.config), directory)
    if guess.name and (workspace / DEFAULT_OUTPUT / guess.name).exists():
        return None
    return workspace, decode_config(config_path.read_bytes(), guess.config)


def _begin(workspace: Path, config: EvalConfig) -> None:
    """Start what would serve such a run, if `uv` has made its environment and all its secrets are there."""
    from osmosis.shell.evaluation.rollout_environment import find_uv, is_synced  # noqa: PLC0415 - not for a look at a run
    from osmosis.shell.evaluation.standby import Standby, Start  # noqa: PLC0415

    start = Start(
        project=workspace / ROLLOUTS_DIRECTORY / config.experiment.rollout,
        entrypoint=config.experiment.entrypoint,
        environment={**os.environ, **config.env},
    )
    secrets_are_there = all(os.environ.get(secret) for secret in config.secret_names)
    if secrets_are_there and is_synced(start.project, start.environment, find_uv()):
        _ahead.append(Standby.start(start))

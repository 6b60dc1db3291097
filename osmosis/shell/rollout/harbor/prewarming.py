"""Tries tasks before the server takes rollouts (rollout_protocol 13.9). Whether and what is decided by `pure.prewarm`."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

from harbor.models.task.config import TaskConfig as TaskFile

from osmosis.pure.harbor_task import LocalTask, TaskMode
from osmosis.pure.prewarm import (
    ABORT_AFTER,
    PREWARM_ENV,
    TASK_IDS_ENV,
    VERIFIED_ENV,
    Failure,
    PrewarmMode,
    PrewarmSummary,
    Trial,
    is_verified,
    prewarm_mode,
    prewarm_trial,
    prewarm_width,
    systemic_reason,
    task_ids,
)
from osmosis.shell.rollout.failure import error_text
from osmosis.shell.rollout.harbor.side import TrialSide, on_the_side
from osmosis.shell.rollout.harbor.tasks import TaskStore
from osmosis.shell.rollout.harbor.trial_loop import TrialTask

logger = logging.getLogger(__name__)

SANDBOXES_ENVS = ("OPENSANDBOX_MAX_SANDBOXES", "_OSMOSIS_OPENSANDBOX_MAX_SANDBOXES")
WIDTH = 4


class BuildTrial(Protocol):
    """Makes the configuration of a prewarm trial."""

    def __call__(self, task: Path, name: str, *, full: bool) -> tuple[Any, TrialSide]:
        """Of `task`, called `name`."""


class Prewarmer:
    """The prewarm of one backend."""

    def __init__(
        self,
        *,
        submit: Callable[[Any], TrialTask],
        tasks: TaskStore,
        mode: TaskMode,
        given: PrewarmMode | None,
        verified: Collection[str] | bool,
        trials: Path,
        build: BuildTrial,
    ) -> None:
        self._submit = submit
        self._tasks = tasks
        self._mode = mode
        self._given = given
        self._verified = verified
        self._trials = trials
        self._build = build
        self._failed_paths: dict[Path, str] = {}
        self.failed: dict[str, str] = {}
        self.summary: PrewarmSummary | None = None

    def refuse_failed(self, task: Path) -> None:
        """Raise RuntimeError for a task whose prewarm failed."""
        reason = self._failed_paths.get(task)
        if reason is not None:
            raise RuntimeError(f"The prewarm of task {task.name} failed: {reason}")

    async def run(self, given_ids: Sequence[str] | None, given_mode: str | bool | None) -> PrewarmSummary:
        """Try the candidates. Raises RuntimeError if the failures speak of the whole set-up."""
        mode = prewarm_mode(given_mode, self._given, os.environ.get(PREWARM_ENV))
        planned: list[tuple[str, Path, Trial]] = []
        skipped: list[str] = []
        for task_id in [] if mode is PrewarmMode.OFF else await self._candidates(given_ids):
            path = await self._tasks.path(LocalTask(task_id, inside=True))
            verified = is_verified(task_id or path.name, self._verified, os.environ.get(VERIFIED_ENV))
            what = prewarm_trial(mode, verified=verified, healthcheck=await asyncio.to_thread(_has_healthcheck, path))
            if what is Trial.NONE:
                skipped.append(task_id or path.name)
            else:
                planned.append((task_id or path.name, path, what))
        failures = await self._try_all(planned)
        reason = systemic_reason(len(planned), failures)
        self.failed = {failure.task: failure.message for failure in failures}
        self._failed_paths = {path: self.failed[name] for name, path, _ in planned if name in self.failed}
        self.summary = PrewarmSummary(
            mode=mode,
            tried=tuple(name for name, _, _ in planned),
            skipped=tuple(skipped),
            failures=tuple(failures),
            systemic=reason,
        )
        if reason is not None:
            first = failures[0]
            raise RuntimeError(f"The prewarm failed: {reason}. Task {first.task}: {first.message}")
        return self.summary

    async def _candidates(self, given: Sequence[str] | None) -> list[str]:
        if self._mode is TaskMode.TEMPLATE:
            return [""]
        found = list(given) if given is not None else await asyncio.to_thread(self._tasks.discover)
        wanted = task_ids(os.environ.get(TASK_IDS_ENV))
        return [task_id for task_id in found if wanted is None or task_id in wanted]

    async def _try_all(self, planned: Sequence[tuple[str, Path, Trial]]) -> list[Failure]:
        sandboxes = next((os.environ[name] for name in SANDBOXES_ENVS if os.environ.get(name)), None)
        places = asyncio.Semaphore(prewarm_width(sandboxes, WIDTH))
        failures: list[Failure] = []
        succeeded = False

        async def attempt(name: str, path: Path, what: Trial) -> None:
            nonlocal succeeded
            async with places:
                if not succeeded and len(failures) >= ABORT_AFTER:
                    failures.append(Failure(name, "not tried: the first tasks all failed"))
                    return
                message = await self._try(path, what)
                if message is None:
                    succeeded = True
                else:
                    logger.warning("The prewarm of task %s failed: %s", name, message)
                    failures.append(Failure(name, message))

        await asyncio.gather(*(attempt(*task) for task in planned))
        return failures

    async def _try(self, path: Path, what: Trial) -> str | None:
        """Why the trial failed; None if it did not."""
        name = f"prewarm-{uuid.uuid4().hex[:12]}"
        try:
            config, side = self._build(path, name, full=what is Trial.FULL)
            with on_the_side(name, side):
                result, failed = await self._submit(config).finished
            if failed is not None:
                raise failed
        except Exception as error:  # noqa: BLE001 - whatever hinders the trial is why it failed
            return error_text(error)
        finally:
            await asyncio.to_thread(shutil.rmtree, self._trials / name, True)
        told = result.exception_info
        return None if told is None else str(told.exception_message or told.exception_type)


def _has_healthcheck(task: Path) -> bool:
    path = task / "task.toml"
    return path.is_file() and TaskFile.model_validate_toml(path.read_text()).environment.healthcheck is not None

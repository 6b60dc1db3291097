"""Finds a rollout's task on disk, fetching it with Harbor's own client if need be (contract: rollout_protocol 13.3)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from harbor.models.task.id import GitTaskId, PackageTaskId
from harbor.tasks.client import TaskClient

from osmosis.pure.harbor_task import GitTask, LocalTask, PackageTask, TaskChoice

logger = logging.getLogger(__name__)


class TaskStore:
    """The tasks of one backend. A task from elsewhere is fetched once, whoever asks first."""

    def __init__(self, tasks_dir: Path) -> None:
        self._tasks_dir = tasks_dir
        self._locks: dict[TaskChoice, asyncio.Lock] = {}
        self._fetched: dict[TaskChoice, Path] = {}

    async def path(self, choice: TaskChoice) -> Path:
        """The directory of a task. Raises ValueError if it is not there, and what Harbor's client raises."""
        if isinstance(choice, LocalTask):
            return await asyncio.to_thread(self._local, choice)
        async with self._locks.setdefault(choice, asyncio.Lock()):
            if choice not in self._fetched:
                self._fetched[choice] = await self._fetch(choice)
            return self._fetched[choice]

    def _local(self, choice: LocalTask) -> Path:
        if not choice.inside:
            path = Path(choice.path).expanduser().resolve()
        else:
            path = (self._tasks_dir / choice.path).resolve()
            if not path.is_relative_to(self._tasks_dir.resolve()):
                raise ValueError(f"The task {choice.path!r} leaves the tasks directory")
        if not path.is_dir():
            raise ValueError(f"There is no task directory {path}")
        return path

    async def _fetch(self, choice: GitTask | PackageTask) -> Path:
        if isinstance(choice, GitTask):
            if choice.commit is None:
                logger.warning("The task %s of %s is not pinned: metadata has no git_commit_id", choice.path, choice.url)
            wanted = GitTaskId(git_url=choice.url, git_commit_id=choice.commit, path=Path(choice.path))
        else:
            if choice.floating:
                logger.warning("The task %s is not pinned: it has no @ref, so the latest is taken", choice.name)
            organisation, _, name = choice.name.partition("/")
            wanted = PackageTaskId(org=organisation, name=name, ref=choice.ref)
        results = (await TaskClient().download_tasks(task_ids=[wanted])).results
        return Path(results[0].path)

    def discover(self) -> list[str]:
        """The ids of the tasks in the tasks directory: what holds a `task.toml`, or looks like a task at the top level."""
        root = self._tasks_dir
        found = {path.parent.relative_to(root).as_posix() for path in root.rglob("task.toml")}
        found |= {
            path.name
            for path in root.iterdir()
            if path.is_dir() and ((path / "instruction.md").is_file() or (path / "environment").is_dir())
        }
        return sorted(found - {"."})

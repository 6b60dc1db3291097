"""Live previews on disk: `<root>/<rollout id>/preview.json`, if the environment names a root (rollout_protocol section 11).

What is shown is decided by `osmosis.pure.preview`. Nothing here may hold up or fail a rollout: a source that is slow is asked
again later, a disk that is full costs the preview.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from osmosis import __version__
from osmosis.pure import preview as rules
from osmosis.pure.preview import Preview, encode_preview, may_be_previewed, preview_hints
from osmosis.pure.protocol import RolloutStatus
from osmosis.pure.redaction import Redactor
from osmosis.shell.rollout.context import RolloutContext
from osmosis.shell.rollout.file_worker import off_loop
from osmosis.shell.rollout.types.sample import RolloutSample

logger = logging.getLogger(__name__)

PREVIEW_ROOT_ENV: Final = "_OSMOSIS_ROLLOUT_PREVIEW_ROOT"
PREVIEW_NAME: Final = "preview.json"
STOP_GRACE_SEC: Final = 2.0


class Previews:
    """The previews of one server."""

    def __init__(self, root: Path, *, interval_sec: float = rules.INTERVAL_SEC) -> None:
        self._root = root
        self._interval_sec = interval_sec
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def from_environment(cls) -> Previews | None:
        """The previews that the environment asks for; None unless it names an absolute path without symlinks."""
        named = os.environ.get(PREVIEW_ROOT_ENV)
        if not named:
            return None
        root = Path(named)
        if not root.is_absolute() or ".." in root.parts or _symlinked(root):
            logger.warning("%s must be an absolute path without symlinks; there will be no previews", PREVIEW_ROOT_ENV)
            return None
        return cls(root)

    def follow(self, context: RolloutContext) -> RolloutPreview | None:
        """Begin to show a rollout; None if its id does not suit. Call with the rollout's context active."""
        if not may_be_previewed(context.rollout_id):
            return None
        context.preview_path = self._root / context.rollout_id / PREVIEW_NAME
        followed = RolloutPreview(context, self._interval_sec)
        task = asyncio.create_task(followed.run(), name=f"preview {context.rollout_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return followed

    async def stop(self) -> None:
        """Let last writes finish for a moment, then drop them."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=STOP_GRACE_SEC)
            for task in late:
                task.cancel()


class RolloutPreview:
    """The preview of one rollout. `moved` and `ended` only leave word; the writing is done by `run`."""

    def __init__(self, context: RolloutContext, interval_sec: float) -> None:
        assert context.preview_path is not None
        self._context = context
        self._path = context.preview_path
        self._interval_sec = interval_sec
        self._redactor = Redactor([context.api_key] if context.api_key else [])
        self._status = RolloutStatus.RUNNING
        self._version = 0
        self._word = asyncio.Event()
        self._shown: Sequence[Mapping[str, Any]] | None = None
        self._hints: tuple[int | None, bool] = (None, False)

    def moved(self, status: RolloutStatus) -> None:
        """The rollout has another status: show it soon."""
        self._status = status
        self._word.set()

    def ended(self, status: RolloutStatus, sample: RolloutSample | None) -> None:
        """The rollout is over: show its last state and stop."""
        if sample is not None and sample.trajectory_messages is not None:
            self._shown, self._hints = list(sample.trajectory_messages), (None, False)
        self._status = status
        self._word.set()

    async def run(self) -> None:
        """Show the rollout until it has ended."""
        while True:
            # Read before anything is awaited: word that comes in the meantime leads to another round.
            status = self._status
            self._word.clear()
            if not status.terminal:
                await self._look()
            await self._show(status)
            if status.terminal:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_sec):
                    await self._word.wait()

    async def _look(self) -> None:
        source = self._context.sample_source
        if source is None or not self._context.preview_enabled:
            return
        try:
            async with asyncio.timeout(rules.SOURCE_TIMEOUT_SEC):
                sample = await source.get_preview(rules.MAX_MESSAGES)
        except Exception as error:  # noqa: BLE001 - the source is user code, and a preview is worth no failure
            logger.debug("No preview of rollout %s this time: %s", self._context.rollout_id, error)
            return
        if sample is not None:
            self._shown, self._hints = list(sample.messages), preview_hints(sample.extra_fields)

    async def _show(self, status: RolloutStatus) -> None:
        if self._shown is None or not self._context.preview_enabled:
            return
        turn, truncated = self._hints
        preview = Preview(
            rollout_id=self._context.rollout_id,
            messages=self._shown,
            status=status,
            version=self._version + 1,
            updated_at=datetime.now(UTC).isoformat(),
            turn=turn,
            truncated=truncated,
        )
        try:
            data = encode_preview(preview, self._redactor, sdk_version=__version__)
            await off_loop(lambda: _write(self._path, data))
        except Exception as error:  # noqa: BLE001 - messages are user code's objects, the disk is anybody's
            logger.warning("The preview of rollout %s was not written: %s", self._context.rollout_id, error)
        else:
            self._version += 1


def _symlinked(path: Path) -> bool:
    """Whether a component of `path` is a symlink; what does not exist yet is none."""
    for component in (*reversed(path.parents), path):
        try:
            if stat.S_ISLNK(component.lstat().st_mode):
                return True
        except OSError:
            return False
    return False


def _write(path: Path, data: bytes) -> None:
    """Replace the preview in one step, readable by its owner alone, through no symlink. Raises OSError."""
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _symlinked(path.parent.parent):
        raise NotADirectoryError("a component of the preview root is a symlink")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        unfinished = f".{path.name}.{os.getpid()}.tmp"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished, dir_fd=directory)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(unfinished, flags, 0o600, dir_fd=directory), "wb") as file:
            file.write(data)
        os.replace(unfinished, path.name, src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        os.close(directory)

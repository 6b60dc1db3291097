"""A Harbor environment without a daemon or images: each trial in a bubblewrap sandbox (issue 5; ruling 26).

    EnvironmentConfig(
        import_path="osmosis_ai.rollout.backend.harbor.bubblewrap:BubblewrapEnvironment",
        kwargs={"rootfs": "/srv/images/debian"},
    )

Keyword arguments: `rootfs`, a directory to lay the overlay on (default: this machine's `/usr`); `network` "none" or "host";
`processes`, how many at once; `bwrap`, the program. A task's `[environment]` gives cpus, memory_mb, storage_mb, workdir and
env; of an `environment/Dockerfile` the simple instructions are carried out, on top of the root file system in place of FROM.
There is no network unless asked for, only the port of the model bridge. Logs are copied out, never mounted.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities

from osmosis.pure.dockerfile import BuildStep, Copy, Env, Run, User, Workdir, build_steps
from osmosis.pure.sandbox_plan import (
    DEFAULT_PROCESSES,
    DEFAULT_STORAGE_MB,
    Limits,
    Mount,
    SandboxSpec,
    loopback_port,
    whole_seconds,
)
from osmosis.shell.rollout.harbor.sandbox import Finished, Sandbox, SandboxError

_LINKS = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
_OVERLAY_IN_MEMORY = (6, 6)
"""The first kernel whose tmpfs can be the upper layer of an overlay that a user namespace mounts (user xattrs)."""


class BubblewrapEnvironment(BaseEnvironment):
    """One sandbox a trial; starts in about a tenth of a second and leaves nothing behind."""

    relays_loopback: ClassVar[bool] = True
    """A URL of the bridge on this machine's loopback works inside as it is; it comes as keyword argument `bridge_url`."""

    def __init__(
        self,
        *args: Any,
        rootfs: str | None = None,
        network: str = "none",
        processes: int = DEFAULT_PROCESSES,
        bwrap: str | None = None,
        bridge_url: str = "",
        **kwargs: Any,
    ) -> None:
        if network not in ("none", "host"):
            raise ValueError(f"network must be 'none' or 'host', not {network!r}")
        self._rootfs = None if rootfs is None else str(Path(rootfs).expanduser().resolve())
        self._host_network = network == "host"
        self._processes = processes
        self._bwrap = bwrap
        self._bridge_url = bridge_url
        self._sandbox: Sandbox | None = None
        self._scratch: Path | None = None
        self._workdir = "/"
        self._user = "root"
        self._image_env: dict[str, str] = {}
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        """The name of this environment."""
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """No network is the rule here; nothing is mounted."""
        return EnvironmentCapabilities(disable_internet=not self._host_network)

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        """Processors and memory can be limited."""
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True)

    @classmethod
    def preflight(cls) -> None:
        """Fail early where bubblewrap is not installed."""
        find_bwrap(None)

    def _validate_definition(self) -> None:
        if self._rootfs is not None and not Path(self._rootfs, "bin").exists():
            raise FileNotFoundError(f"rootfs {self._rootfs} is no root file system: it has no bin directory")
        self._build_steps()

    def _build_steps(self) -> tuple[BuildStep, ...]:
        path = self.environment_dir / "Dockerfile"
        return build_steps(path.read_text(), "environment/Dockerfile") if path.is_file() else ()

    async def start(self, force_build: bool) -> None:
        """Make the sandbox and carry out the Dockerfile's simple instructions. Raises SandboxError."""
        port = loopback_port(self._bridge_url)
        self._scratch = Path(tempfile.mkdtemp(prefix="osmosis-sandbox-"))
        spec = SandboxSpec(
            bwrap=find_bwrap(self._bwrap),
            scratch=str(self._scratch),
            rootfs=self._rootfs,
            links=_machine_links(),
            memory=_kernel() >= _OVERLAY_IN_MEMORY,
            storage_mb=self._storage_mb,
            mounts=tuple(self._user_mounts()),
            host_network=self._host_network,
            relay_port=port,
        )
        memory_mb = self._effective_memory_mb
        limits = Limits(
            cpus=self._effective_cpus,
            memory_bytes=None if memory_mb is None else memory_mb << 20,
            processes=self._processes,
            file_bytes=self._storage_mb << 20,
        )
        self._sandbox = await Sandbox.start(spec, limits, None if port is None else ("127.0.0.1", port))
        if not self._sandbox.limited_as_a_whole:
            self.logger.warning("No control groups can be made here, so limits hold for each process, not for the sandbox")
        await asyncio.to_thread(self._lay_out)
        for step in await asyncio.to_thread(self._build_steps):
            await self._carry_out(step)
        if self.task_env_config.workdir:
            self._workdir = self.task_env_config.workdir
            await asyncio.to_thread(self._running.files.make_directory, self._workdir)
        await self._upload_environment_dir_after_start()

    @property
    def _storage_mb(self) -> int:
        return self.task_env_config.storage_mb or DEFAULT_STORAGE_MB

    def _user_mounts(self) -> Sequence[Mount]:
        """The mounts that the user asked for; the trial's own directories for logs are not mounted here."""
        own = self.trial_paths.trial_dir.resolve()
        found = []
        for mount in self._mounts:
            source = Path(mount["source"]).resolve()
            if mount.get("type", "bind") != "bind":
                raise ValueError(f"{mount['target']}: only bind mounts are possible in a bubblewrap sandbox")
            if not source.is_relative_to(own):
                found.append(Mount(str(source), mount["target"], bool(mount.get("read_only"))))
        return found

    def _lay_out(self) -> None:
        files = self._running.files
        for path in ("/logs", "/logs/agent", "/logs/verifier", "/logs/artifacts", "/tests", "/solution"):
            files.make_directory(path, 0o777 if path.startswith("/logs/") else 0o755)
        for path in ("/tmp", "/var/tmp"):  # noqa: S108 - those of the sandbox
            files.make_directory(path, 0o1777)
        for path in self._mount_targets(writable_only=True):
            files.make_directory(path)

    async def _carry_out(self, step: BuildStep) -> None:
        match step:
            case Workdir(path=path):
                self._workdir = str(PurePosixPath(self._workdir) / path)
                await asyncio.to_thread(self._running.files.make_directory, self._workdir)
            case Env(values=values):
                self._image_env.update(values)
            case User(name=name):
                self._user = name
            case Copy():
                await asyncio.to_thread(self._copy, step)
            case Run(command=command):
                done = await self._execute(command, self._workdir, self._image_env, None, self._user)
                if done.code != 0:
                    said = (done.stderr or done.stdout).strip()[-2000:]
                    raise SandboxError(f"environment/Dockerfile:{step.line}: RUN ended with exit code {done.code}:\n{said}")

    def _copy(self, step: Copy) -> None:
        target = str(PurePosixPath(self._workdir) / step.target)
        into = step.target.endswith("/") or len(step.sources) > 1 or step.target in (".", "..")
        for pattern in step.sources:
            found = sorted(self.environment_dir.glob(pattern)) if pattern not in (".", "") else [self.environment_dir]
            if not found:
                raise SandboxError(f"environment/Dockerfile:{step.line}: COPY found no {pattern!r}")
            for source in found:
                if source.is_dir():
                    self._running.files.put_directory(source, target)
                else:
                    single = not into and len(found) == 1
                    self._running.files.put_file(source, target if single else f"{target}/{source.name}")

    async def stop(self, delete: bool) -> None:
        """End every process of the sandbox and remove what it wrote."""
        if self._sandbox is not None:
            await self._sandbox.stop()
            self._sandbox = None
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
            self._scratch = None

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a shell command. Raises CommandTimeoutError."""
        resolved = self._resolve_user(user)
        done = await self._execute(
            command,
            cwd or self._workdir,
            {**self._image_env, **(self._merge_env(env) or {})},
            whole_seconds(timeout_sec),
            self._user if resolved is None else str(resolved),
        )
        return ExecResult(stdout=done.stdout or None, stderr=done.stderr or None, return_code=done.code)

    async def _execute(self, command: str, cwd: str, env: dict[str, str], timeout_sec: float | None, user: str) -> Finished:
        # The sandbox may have no bash; then its sh has to do.
        shell = f"exec $(command -v bash || command -v sh) -c {shlex.quote(command)}"
        return await self._running.run(
            ["/bin/sh", "-c", shell],
            cwd=cwd,
            user=user,
            environment=env,
            timeout_sec=timeout_sec,
            on_output=self._output_callback(),
        )

    @property
    def _running(self) -> Sandbox:
        if self._sandbox is None:
            raise SandboxError("the sandbox is not running")
        return self._sandbox

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file in."""
        await asyncio.to_thread(self._running.files.put_file, Path(source_path), self._inside(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy the files of a directory in."""
        report = await asyncio.to_thread(self._running.files.put_directory, Path(source_dir), self._inside(target_dir))
        for skipped in report.skipped:
            self.logger.warning("Not copied into the sandbox: %s", skipped)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a regular file out. Raises OSError."""
        await asyncio.to_thread(self._running.files.get_file, self._inside(source_path), Path(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy the regular files of a directory out; what else lies there stays, with the reason in the trial's log."""
        report = await asyncio.to_thread(self._running.files.get_directory, self._inside(source_dir), Path(target_dir))
        for skipped in report.skipped:
            self.logger.warning("Left in the sandbox: %s", skipped)

    def _inside(self, path: str) -> str:
        return str(PurePosixPath(self._workdir) / path)


def find_bwrap(given: str | None) -> str:
    """The bubblewrap program. Raises SandboxError where there is none, or no Linux to run it."""
    found = shutil.which(given or "bwrap")
    if platform.system() != "Linux" or found is None:
        raise SandboxError(
            "bubblewrap was not found: it needs Linux and the program bwrap (Debian: apt-get install bubblewrap)"
        )
    return found


def _machine_links() -> dict[str, str]:
    """The links beside `/usr` on this machine, such as `/bin`; a directory of its own is not shown."""
    return {name: os.readlink(f"/{name}") for name in _LINKS if os.path.islink(f"/{name}")}


def _kernel() -> tuple[int, int]:
    numbers = platform.release().split("-")[0].split(".")
    return (
        (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 and numbers[0].isdecimal() and numbers[1].isdecimal() else (0, 0)
    )

"""Real workspaces in temporary directories, and real `osmosis` processes in them.

The rollout's environment is made once a test session (`rollout_environment` in `conftest.py`) with this checkout as an editable
source; every workspace shares it, so that `uv sync` finds nothing to do.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
ENTRYPOINT = Path(__file__).with_name("run_entrypoint.py")
PATIENCE = 300.0
"""Seconds after which a test that waits for a process has failed."""

_POLL_SECONDS = 0.02

CONFIG = """\
[experiment]
rollout = "echo"
entrypoint = "main.py"
model_path = "openai/stub"
dataset = "words"

[evaluation]
n = {n}
batch_size = {batch_size}
{evaluation}
[secrets]
required = {secrets}
"""

PYPROJECT = f"""\
[project]
name = "echo"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["osmosis-ai[server]", "httpx"]

[tool.uv.sources]
osmosis-ai = {{ path = "{CHECKOUT}", editable = true }}
"""


@dataclass(repr=False)
class Ended:
    """A command that has ended. It shows itself whole where a test fails."""

    code: int
    out: str
    err: str

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"

    @property
    def envelope(self) -> dict[str, Any]:
        """The JSON document on standard output."""
        document: dict[str, Any] = json.loads(self.out)
        return document

    @property
    def resource(self) -> dict[str, Any]:
        """The report inside the envelope."""
        report: dict[str, Any] = self.envelope["resource"]
        return report

    @property
    def said(self) -> str:
        """Everything that was printed."""
        return self.out + self.err


@dataclass
class Command:
    """A command that runs. Its output is read as it comes."""

    process: asyncio.subprocess.Process
    _streams: dict[str, bytearray] = field(default_factory=lambda: {"out": bytearray(), "err": bytearray()})
    _readers: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def err(self) -> str:
        """Standard error so far."""
        return self._streams["err"].decode(errors="replace")

    @property
    def out(self) -> str:
        """Standard output so far."""
        return self._streams["out"].decode(errors="replace")

    async def until(self, text: str, times: int = 1) -> None:
        """Wait until standard error holds `text` that often."""
        await eventually(lambda: self.err.count(text) >= times or self.process.returncode is not None)
        assert self.err.count(text) >= times, self.err

    def signal(self, number: signal.Signals = signal.SIGINT) -> None:
        """Send a signal to this process alone."""
        self.process.send_signal(number)

    async def end(self) -> Ended:
        """Wait for the end of the process and of its output."""
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
            await asyncio.gather(*self._readers)
        return Ended(code, self._streams["out"].decode(errors="replace"), self.err)

    def follow(self) -> None:
        """Begin to read."""
        streams = (("out", self.process.stdout), ("err", self.process.stderr))
        self._readers = [asyncio.create_task(self._read(name, stream)) for name, stream in streams if stream is not None]

    async def _read(self, name: str, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(1 << 16):
            self._streams[name] += chunk


@dataclass
class Workspace:
    """A workspace, and the environment in which commands run in it."""

    root: Path
    environment: dict[str, str]

    @property
    def project(self) -> Path:
        """The rollout."""
        return self.root / "rollouts" / "echo"

    @property
    def config(self) -> Path:
        """The eval config."""
        return self.root / "configs" / "eval" / "echo.toml"

    @property
    def dataset(self) -> Path:
        """The dataset file."""
        return self.root / "data" / "words.jsonl"

    @property
    def runs(self) -> Path:
        """Where run directories lie."""
        return self.root / ".osmosis" / "evals"

    def run_directory(self, name: str) -> Path:
        """The directory of a run."""
        return self.runs / name

    def write_config(self, *, n: int = 1, batch_size: int = 8, secrets: Iterable[str] = (), evaluation: str = "") -> None:
        """Write the eval config."""
        self.config.write_text(
            CONFIG.format(n=n, batch_size=batch_size, secrets=json.dumps(list(secrets)), evaluation=evaluation)
        )

    def write_rows(self, *prompts: str, labels: Mapping[str, str] | None = None) -> None:
        """Write the dataset; each row's label is its prompt unless `labels` says otherwise."""
        rows = ({"user_prompt": prompt, "ground_truth": (labels or {}).get(prompt, prompt)} for prompt in prompts)
        self.dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def arguments(self, *flags: str, dataset: str | None = "data/words.jsonl", yes: bool = True) -> list[str]:
        """The words of an `osmosis eval run`."""
        words = ["eval", "run", "configs/eval/echo.toml", *flags]
        return words + (["--dataset-file", dataset] if dataset else []) + (["--yes"] if yes else [])

    @asynccontextmanager
    async def start(
        self, *flags: str, words: list[str] | None = None, wrapped: Iterable[str] = (), **variables: str
    ) -> AsyncIterator[Command]:
        """Start `osmosis eval run`; a process that is still there at the end is killed, and its rollout server with it.

        `wrapped` is a command line that runs the command that follows it.
        """
        command = [*wrapped, sys.executable, "-m", "osmosis.shell.cli.main", *(words or self.arguments(*flags))]
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.root,
            env=self.environment | variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        running = Command(process)
        running.follow()
        try:
            yield running
        finally:
            if process.returncode is None:
                process.kill()
            await running.end()

    async def run(self, *flags: str, words: list[str] | None = None, **variables: str) -> Ended:
        """Run `osmosis eval run` to its end."""
        async with self.start(*flags, words=words, **variables) as running:
            return await running.end()

    def journal(self, name: str) -> list[dict[str, Any]]:
        """The complete records of a run's journal."""
        data = (self.run_directory(name) / "events.jsonl").read_bytes()
        return [json.loads(line) for line in data.split(b"\n")[:-1]]

    def records(self, name: str, kind: str) -> list[dict[str, Any]]:
        """The records of one kind; none if there is no journal yet."""
        if not (self.run_directory(name) / "events.jsonl").exists():
            return []
        return [record for record in self.journal(name) if record["kind"] == kind]

    def index(self, name: str) -> list[dict[str, Any]]:
        """The lines of a run's index."""
        return [json.loads(line) for line in (self.run_directory(name) / "index.jsonl").read_bytes().splitlines()]

    def metrics(self, name: str) -> dict[str, Any]:
        """A run's metrics."""
        document: dict[str, Any] = json.loads((self.run_directory(name) / "metrics.json").read_bytes())
        return document

    def server(self, name: str) -> dict[str, Any]:
        """The record of a run's rollout server."""
        record: dict[str, Any] = json.loads((self.run_directory(name) / "server.json").read_bytes())
        return record

    def nothing_left(self) -> bool:
        """Whether no run directory exists; the directory of locks may."""
        return not self.runs.exists() or {path.name for path in self.runs.iterdir()} <= {".locks"}


def make_workspace(root: Path, base_url: str, environment: Path) -> Workspace:
    """A workspace under `root` whose model is at `base_url`, with the rollout environment `environment`."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(("UV_", "PIP_", "SSL_"))}
    workspace = Workspace(
        root,
        kept
        | {
            "OPENAI_BASE_URL": base_url,
            "OPENAI_API_KEY": "sk-test-0123456789",
            "UV_PROJECT_ENVIRONMENT": str(environment),
            "PYTHONPATH": str(CHECKOUT),
            "OSMOSIS_DEBUG": "1",
        },
    )
    for directory in (workspace.project, workspace.config.parent, workspace.dataset.parent):
        directory.mkdir(parents=True)
    make_project(workspace.project)
    lock = environment.parent / "project" / "uv.lock"
    if lock.exists():
        shutil.copy(lock, workspace.project)
    workspace.write_config()
    workspace.write_rows("echo one", "echo two", "echo three")
    return workspace


def make_project(project: Path) -> None:
    """The files of the rollout."""
    shutil.copy(ENTRYPOINT, project / "main.py")
    (project / "pyproject.toml").write_text(PYPROJECT)


_KEPT = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "XDG_CACHE_HOME", "COVERAGE_PROCESS_START"})


async def eventually(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Look again and again until `holds()`. Fails the test after `seconds`."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(_POLL_SECONDS)


def alive(pid: int) -> bool:
    """Whether a process with this id is there and not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def group_members(pgid: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == pgid and fields[0] not in {"Z", "X"}:
            found.append(int(path.name))
    return found

"""Tries a rollout out: its environment, its entrypoint, its server, and one row against a stub model (issue 5).

Everything runs as in an evaluation: `uv sync` and `uv run` in the rollout's own environment, the same bootstrap, the same long
poll. Nothing is left behind; what the rollout writes goes to a temporary directory.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from osmosis.pure.dataset import Row
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.outcome import classify
from osmosis.pure.protocol import Health, InitRequest, is_path_segment
from osmosis.pure.redaction import Redactor
from osmosis.pure.rollout_check import Check, CheckStatus, RolloutCheck, row_check, unreachable_row
from osmosis.pure.secret_forms import secret_values
from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.dataset_file import read_dataset
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.rollout_client import AdmissionRefused, RolloutClient, ServerUnreachable
from osmosis.shell.evaluation.rollout_dependencies import import_entrypoint, sync_environment
from osmosis.shell.evaluation.rollout_process import RolloutProcess
from osmosis.shell.evaluation.run_log import RunLog
from osmosis.shell.evaluation.standby import Launch, Start
from osmosis.shell.evaluation.stub_model import StubModel
from osmosis.shell.evaluation.workspace import find_workspace

STOP_GRACE_SEC = 5.0
_SAMPLE_ROW = Row(0, user_prompt="What is 17 + 25? Answer with the number alone.", label="42", metadata={})
_NO_ANSWER = "This is the stub model's answer."


class ValidationRequest(msgspec.Struct, frozen=True):
    """What to try out. The row is the first of `dataset_file`, or a small sum; it may take `timeout_sec` seconds."""

    name: str
    working_directory: Path
    entrypoint: str = "main.py"
    dataset_file: Path | None = None
    timeout_sec: float = 120.0


def validate_rollout(request: ValidationRequest, milestone: Callable[[str], None]) -> RolloutCheck:
    """Make every check up to the first that fails. Raises OsmosisError where there is nothing to check."""
    return asyncio.run(_validate(request, milestone))


async def _validate(request: ValidationRequest, milestone: Callable[[str], None]) -> RolloutCheck:
    workspace, project = _located(request)
    row = _SAMPLE_ROW if request.dataset_file is None else _first_row(request.working_directory / request.dataset_file)
    with tempfile.TemporaryDirectory(prefix="osmosis-validate-") as place:
        environment = dict(os.environ)
        with RunLog(Path(place) / "logs.txt", Redactor(secret_values((), environment))) as log:
            trial = _Trial(request, project, Path(place), environment, log, row, milestone)
            await trial.run()
    return RolloutCheck(
        name=request.name,
        workspace_directory=str(workspace),
        rollout_directory=str(project),
        entrypoint=request.entrypoint,
        checks=tuple(trial.checks),
        sdk_version=trial.sdk_version,
        model_calls=trial.model_calls,
    )


def _located(request: ValidationRequest) -> tuple[Path, Path]:
    """(workspace, rollout). Raises OsmosisError for a name that is none, or a rollout without its two files."""
    workspace = find_workspace(request.working_directory)
    if not is_path_segment(request.name):
        raise OsmosisError(f"{request.name!r} is not the name of a rollout.", hint="Name a directory below rollouts/.")
    project = workspace / "rollouts" / request.name
    if not project.is_dir():
        raise OsmosisError(
            f"There is no rollout {request.name}.",
            code=ErrorCode.NOT_FOUND,
            problems=[Problem(str(project), "no such directory")],
            hint=f"Write it with: osmosis rollout init {request.name}",
        )
    if not (project / request.entrypoint).resolve().is_relative_to(project.resolve()):
        raise OsmosisError(
            f"The entrypoint {request.entrypoint} lies outside of {project}.",
            hint="Give its path within the rollout's directory, such as main.py.",
        )
    missing = [name for name in ("pyproject.toml", request.entrypoint) if not (project / name).is_file()]
    if missing:
        raise OsmosisError(
            f"The rollout {request.name} is not complete.",
            code=ErrorCode.NOT_FOUND,
            problems=[Problem(str(project / name), "no such file") for name in missing],
            hint="Write what is missing, or begin with `osmosis rollout init`. --entrypoint names another file than main.py.",
        )
    return workspace, project


def _first_row(path: Path) -> Row:
    return read_dataset(path, rows=None, limit=1).rows[0]


class _Trial:
    """The checks of one rollout, in order, up to the first that fails."""

    def __init__(
        self,
        request: ValidationRequest,
        project: Path,
        place: Path,
        environment: dict[str, str],
        log: RunLog,
        row: Row,
        milestone: Callable[[str], None],
    ) -> None:
        self.checks: list[Check] = []
        self.sdk_version: str | None = None
        self.model_calls: int | None = None
        self._request = request
        self._project = project
        self._place = place
        self._environment = environment
        self._log = log
        self._row = row
        self._milestone = milestone

    async def run(self) -> None:
        """Make the checks."""
        entrypoint = self._request.entrypoint
        if not await self._check("environment", sync_environment(self._project, self._environment, self._log)):
            return
        if not await self._check("entrypoint", import_entrypoint(self._project, entrypoint, self._environment, self._log)):
            return
        self._milestone("starting rollout server")
        try:
            server = await RolloutProcess.start(self._launch(), self._log, FileLayer())
        except OsmosisError as error:
            self.checks.append(Check("server", CheckStatus.FAILED, str(error)))
            return
        try:
            self.sdk_version = server.sdk_version
            self.checks.append(Check("server", CheckStatus.PASSED, f"healthy, {_capacity(server.health)}"))
            if server.health.requires_public_url:
                self.checks.append(unreachable_row(server.health.environment))
            else:
                self._milestone("running a row against a stub model")
                self.checks.append(await self._row_check(server.url))
        finally:
            await server.stop(STOP_GRACE_SEC)

    async def _check(self, name: str, work: Awaitable[None]) -> bool:
        self._milestone(f"checking {name}")
        try:
            await work
        except OsmosisError as error:
            self.checks.append(Check(name, CheckStatus.FAILED, str(error)))
            return False
        self.checks.append(Check(name, CheckStatus.PASSED))
        return True

    def _launch(self) -> Launch:
        trials = self._place / "trials"
        return Launch(
            start=Start(self._project, self._request.entrypoint, self._environment),
            run_directory=self._place,
            trials=trials,
            created_at=utc_now(),
        )

    async def _row_check(self, url: str) -> Check:
        rollout_id, token = uuid.uuid4().hex, secrets.token_hex(16)
        limit = self._request.timeout_sec
        async with StubModel(self._row.label or _NO_ANSWER, token) as model, RolloutClient(url) as client:
            rollout = InitRequest(
                initial_messages=self._row.messages(),
                label=self._row.label,
                metadata=self._row.metadata,
                rollout_id=rollout_id,
                chat_completions_url=model.url,
                llm_api_key=token,
                agent_timeout_sec=limit,
                grader_timeout_sec=limit,
                extra_fields={"row_index": 0, "run_index": 0},
            )
            try:
                async with asyncio.timeout(limit):
                    outcome = classify(await client.run(rollout))
            except (AdmissionRefused, ServerUnreachable) as error:
                return Check("row", CheckStatus.FAILED, str(error))
            except TimeoutError:
                await client.cancel(rollout_id)
                return Check("row", CheckStatus.FAILED, f"it did not end within {limit:g} s")
            finally:
                self.model_calls = model.calls
        return row_check(outcome, self.model_calls)


def _capacity(health: Health) -> str:
    if health.capacity is None:
        return "takes any number of rollouts at once"
    return f"takes {health.capacity} rollout{'' if health.capacity == 1 else 's'} at once"

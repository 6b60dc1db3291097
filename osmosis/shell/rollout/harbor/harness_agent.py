"""The Harbor agent that runs a workflow inside the trial's sandbox (contract: rollout_protocol 13.6 and section 14)."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from harbor.agents.base import BaseAgent

from osmosis import __version__
from osmosis.pure.bundle import AGENT_FUNCTION, MAIN_MODULE
from osmosis.pure.container_files import (
    FAILURE,
    INPUT_NAME,
    RESULT_NAME,
    ContainerResult,
    decode_container_result,
    encode_container_file,
)
from osmosis.shell.rollout.container.runner import MAX_FILE_BYTES
from osmosis.shell.rollout.harbor.installation import Installed, install
from osmosis.shell.rollout.harbor.side import TrialSide, side_of
from osmosis.shell.rollout.tree_copy import read_regular

LOG_NAME = "workflow.txt"
_LAST_CHARACTERS = 1000


class WorkflowFailedError(Exception):
    """The workflow failed; the message is its own. There is nothing to verify then."""


class OsmosisHarnessInstalledAgent(BaseAgent):
    """Installs a bundle, hands the rollout over, and takes its result back. `trial` names what is left on the side."""

    def __init__(self, *args: Any, trial: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._side: TrialSide = side_of(trial)
        self._installed: Installed | None = None

    @staticmethod
    def name() -> str:
        """The name of this agent."""
        return "osmosis-workflow"

    def version(self) -> str:
        """The version of the SDK, which is the same inside and outside."""
        return __version__

    async def setup(self, environment: Any) -> None:
        """Install the bundle. Raises InstallationError."""
        self._installed = await install(environment, self._side)

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        """Run the workflow to its end. Raises WorkflowFailedError with what the workflow said."""
        assert self._installed is not None
        assert self._side.bundle is not None
        if "model_usage" in type(context).model_fields:
            # Else Harbor would go and read a trajectory that the sandbox may have put a pipe in place of.
            context.model_usage = {}
        logs = PurePosixPath("/logs/agent")
        await self._hand_over(instruction, environment, logs)
        function = f"{self._side.bundle.package}.{MAIN_MODULE}:{AGENT_FUNCTION}"
        done = await environment.exec(
            f"exec {self._installed.command(function)} > {logs / LOG_NAME} 2>&1",
            env={**self._installed.environment, **self._side.environment},
        )
        result = await self._take_back(environment, logs)
        if result is None:
            said = await self._last_words(environment, logs)
            raise WorkflowFailedError(f"The workflow left no result (exit code {done.return_code}){said}")
        if result.status == FAILURE:
            raise WorkflowFailedError(result.err_message or "The workflow failed and does not say why")

    async def _hand_over(self, instruction: str, environment: Any, logs: PurePosixPath) -> None:
        given = self._side.given
        prompt = given.prompt or [{"role": "user", "content": instruction}]
        data = encode_container_file(msgspec.structs.replace(given, prompt=prompt, label=None, api_key=None))
        with tempfile.TemporaryDirectory(prefix="osmosis-input-") as scratch:
            path = Path(scratch) / INPUT_NAME
            await asyncio.to_thread(path.write_bytes, data)
            await environment.upload_file(path, str(logs / INPUT_NAME))

    async def _take_back(self, environment: Any, logs: PurePosixPath) -> ContainerResult | None:
        data = await self._read(environment, logs, RESULT_NAME)
        try:
            return None if data is None else decode_container_result(data)
        except ValueError as error:
            raise WorkflowFailedError(f"The workflow's result cannot be read: {error}") from None

    async def _last_words(self, environment: Any, logs: PurePosixPath) -> str:
        data = await self._read(environment, logs, LOG_NAME)
        text = (data or b"").decode(errors="replace").strip()[-_LAST_CHARACTERS:]
        return f": {text}" if text else ""

    async def _read(self, environment: Any, logs: PurePosixPath, name: str) -> bytes | None:
        """A file that the sandbox left in the agent's logs, if it is one."""
        if environment.capabilities.mounted:
            await environment.prepare_logs_for_host()
            return await asyncio.to_thread(read_regular, self.logs_dir / name, MAX_FILE_BYTES)
        with tempfile.TemporaryDirectory(prefix="osmosis-result-") as scratch:
            target = Path(scratch) / name
            try:
                await environment.download_file(str(logs / name), target)
            except Exception:  # noqa: BLE001 - each environment has its own error for a file that is not there
                return None
            return await asyncio.to_thread(read_regular, target, MAX_FILE_BYTES)

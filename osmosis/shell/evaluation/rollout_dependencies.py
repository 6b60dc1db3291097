"""What `uv` does in a rollout's project: it makes the environment, and imports the entrypoint there (E20)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from osmosis.pure.errors import OsmosisError
from osmosis.shell.evaluation.child_process import ChildProcess, last_words
from osmosis.shell.evaluation.rollout_environment import find_uv, for_uv, is_synced, leave_stamp
from osmosis.shell.evaluation.run_log import ChildOutput, RunLog

IMPORT_TIMEOUT = 90.0

_IMPORT = (
    "import runpy, sys; sys.path[0] = sys.argv[1]; sys.argv = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='rollout')"
)


async def sync_environment(project: Path, environment: Mapping[str, str], log: RunLog) -> None:
    """`uv sync` the rollout's environment, unless nothing changed since the last time.

    Raises OsmosisError that quotes the last lines of uv.
    """
    if is_synced(project, environment, find_uv()):
        log.write("INFO", "deps", "nothing changed since the last uv sync")
        return
    code, output = await _run(["sync", "--project", str(project)], project, environment, log.child("deps"))
    if code != 0:
        raise OsmosisError(
            f"uv sync failed in {project} (exit code {code}).",
            problems=last_words(output),
            hint="Mend the rollout's pyproject.toml, or run the same command there by hand: uv sync",
        )
    leave_stamp(project, environment, find_uv())


async def import_entrypoint(
    project: Path, entrypoint: str, environment: Mapping[str, str], log: RunLog, timeout_sec: float = IMPORT_TIMEOUT
) -> None:
    """Import the entrypoint in the rollout's environment, without serving. Raises OsmosisError that quotes its last lines."""
    path = project / entrypoint
    arguments = ["run", "--no-sync", "--project", str(project), "python", "-c", _IMPORT, str(path.parent), str(path)]
    try:
        async with asyncio.timeout(timeout_sec):
            code, output = await _run(arguments, project, environment, log.child("import"))
    except TimeoutError:
        raise OsmosisError(
            f"Importing {entrypoint} did not end within {timeout_sec:.0f} s.",
            hint='Serve below `if __name__ == "__main__":`, so that the file can be imported.',
        ) from None
    if code != 0:
        raise OsmosisError(
            f"{entrypoint} cannot be imported (exit code {code}).",
            problems=last_words(output),
            hint=f"Correct {entrypoint}, or add what it imports to the dependencies in {project.name}/pyproject.toml.",
        )


async def _run(
    arguments: list[str], project: Path, environment: Mapping[str, str], output: ChildOutput
) -> tuple[int, ChildOutput]:
    """Run `uv` to its end; whatever ends this early ends its whole group too."""
    process = ChildProcess.start(find_uv(), arguments, project, for_uv(environment))
    try:
        await process.tee(output)
        return await process.wait(), output
    except BaseException:
        process.end()
        raise

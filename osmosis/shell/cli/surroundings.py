"""What a command finds around it: the current directory, and the extra of the package that it needs (E7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from osmosis.pure.errors import ErrorCode, OsmosisError

_EVAL = ("aiohttp", "fastapi", "litellm", "polars", "pydantic", "starlette", "uvicorn", "uvloop", "uv", "httptools")
EXTRA_OF = {**dict.fromkeys(_EVAL, "eval"), "vl_convert": "report"}
"""Which extra of `osmosis-ai` brings a module; one of them missing means that the extra is not installed."""


@contextmanager
def needs_extra(command: str) -> Iterator[None]:
    """Turns the absence of a package of an extra into words that name it and say how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = EXTRA_OF.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise OsmosisError(
            f"`osmosis {command}` needs the package {error.name}, which is not installed.",
            hint=f"Install the extra that brings it: pip install 'osmosis-ai[{extra}]'",
            details={"missing": error.name, "extra": extra},
        ) from None


def working_directory() -> Path:
    """The current directory. Raises OsmosisError when somebody removed it."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise OsmosisError(
            "The current directory no longer exists.",
            code=ErrorCode.NOT_FOUND,
            hint="Change to your workspace and run the command again.",
        ) from None

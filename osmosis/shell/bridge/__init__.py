"""The model bridge: the local OpenAI-compatible endpoint through which rollouts reach the model.

What its names stand for is imported when they are first used: a command that only looks at a finished run, or at a cassette,
needs no HTTP (decision 0060).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osmosis.shell.bridge.cassette_file import load_cassette
    from osmosis.shell.bridge.preflight import preflight
    from osmosis.shell.bridge.recorder import Recorder
    from osmosis.shell.bridge.server import Bridge

__all__ = ["Bridge", "Recorder", "load_cassette", "preflight"]

_MODULES = {"Bridge": "server", "Recorder": "recorder", "load_cassette": "cassette_file", "preflight": "preflight"}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - beside its one use

    found = getattr(import_module(f"{__name__}.{module}"), name)
    # `preflight` is a module too, which its import just put here under the function's name.
    globals()[name] = found
    return found

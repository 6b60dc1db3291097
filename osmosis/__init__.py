"""Osmosis: local-first evaluation of LLM agents.

`osmosis.pure` holds the functional core (values in, values out); `osmosis.shell` holds everything that touches the world.
Importing this package imports neither: `open_run` and `scan_runs`, the door for notebooks, are fetched at their first use.
"""

from importlib import import_module

__version__ = "0.3.10"
__all__ = ["OpenedRun", "__version__", "open_run", "scan_runs"]

_NOTEBOOK_DOOR = frozenset({"OpenedRun", "open_run", "scan_runs"})


def __getattr__(name: str) -> object:
    """The names of the notebook door."""
    if name in _NOTEBOOK_DOOR:
        return getattr(import_module("osmosis.shell.notebook"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NOTEBOOK_DOOR})

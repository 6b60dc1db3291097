"""Names that need an extra: loaded on first use, with advice when it is missing (contract: rollout_protocol section 1)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

MODULES_OF_EXTRA: Final[Mapping[str, frozenset[str]]] = {
    "server": frozenset({"fastapi", "starlette", "uvicorn", "pydantic", "pydantic_core"}),
    "remote-rollout": frozenset({"fastapi", "starlette", "uvicorn", "pydantic", "pydantic_core"}),
    "rubric": frozenset({"aiohttp"}),
    "openai-agents": frozenset({"agents", "litellm", "openai"}),
    "strands": frozenset({"strands", "litellm"}),
    "harbor": frozenset({"harbor"}),
}


def lazy_names(module: str, *, feature: str, extra: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` that takes each of `names` from the module named beside it.

    Raises ModuleNotFoundError with the install command if a module of the extra is missing; any other missing module is
    somebody's bug and passes unchanged. Unknown names raise AttributeError.
    """

    def load(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(names[name]), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in MODULES_OF_EXTRA[extra]:
                raise
            advice = f'{feature} needs the extra {extra!r}: pip install "osmosis-ai[{extra}]"'
            raise ModuleNotFoundError(advice, name=error.name, path=error.path) from error

    return load

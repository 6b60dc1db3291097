"""From `module:attribute` to an agent loop."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.shell.remote_rollout.agent_loop import RolloutAgentLoop


def load_agent_loop(reference: str, directory: Path) -> RolloutAgentLoop:
    """The loop that `reference` names, with `directory` first among the places that modules are looked for in.

    The attribute is an instance, or a class that takes no arguments. Raises OsmosisError that says what is wrong.
    """
    module_name, colon, attribute = reference.partition(":")
    if not (colon and module_name and attribute):
        raise OsmosisError(
            f"{reference!r} names no agent loop.", hint="Write -m MODULE:ATTRIBUTE, such as -m agent:AddingAgent."
        )
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    try:
        found: object = importlib.import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
        loop = found() if isinstance(found, type) else found
    except ModuleNotFoundError as error:
        raise _not_loaded(reference, error, ErrorCode.NOT_FOUND) from None
    except Exception as error:  # noqa: BLE001 - importing runs the author's code
        raise _not_loaded(reference, error, ErrorCode.VALIDATION) from None
    if not isinstance(loop, RolloutAgentLoop):
        raise OsmosisError(f"{reference} is no agent loop but a {type(loop).__name__}.", hint="Name a RolloutAgentLoop.")
    return loop


def _not_loaded(reference: str, error: Exception, code: ErrorCode) -> OsmosisError:
    return OsmosisError(
        f"{reference} cannot be loaded.",
        code=code,
        problems=[Problem(reference, f"{type(error).__name__}: {error}")],
        hint="Modules are looked for in the current directory first, then where Python finds its own.",
    )

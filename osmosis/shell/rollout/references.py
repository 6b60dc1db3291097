"""Objects named by `"module:attribute"`, as constructors of backends take them (contract: rollout_protocol section 5)."""

from __future__ import annotations

import importlib
from typing import Any


def load_reference(reference: Any) -> Any:
    """The object itself, or what a `"module:attribute"` string names.

    Raises ValueError for a string without a colon, ImportError for a missing attribute.
    """
    if not isinstance(reference, str):
        return reference
    module_name, colon, attribute = reference.rpartition(":")
    if not colon:
        raise ValueError(f"{reference!r} must have the form 'module:attribute'")
    module = importlib.import_module(module_name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise ImportError(f"module {module_name!r} has no attribute {attribute!r}") from None

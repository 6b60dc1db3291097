"""What to say of a file that does not exist: one beside it may have been meant (E40)."""

from __future__ import annotations

import os
from pathlib import Path

from osmosis.pure.near_miss import near_miss

_MOST_NAMES = 2_000
"""How many entries of a directory are looked at: an error message may not cost more than the command."""


def meant_beside(path: Path) -> str:
    """` Did you mean "closeness.toml"?` where the directory of `path` holds a file of the same kind and nearly that name."""
    stems: list[str] = []
    try:
        with os.scandir(path.parent) as entries:
            for entry, _ in zip(entries, range(_MOST_NAMES), strict=False):
                if entry.name.endswith(path.suffix) and entry.is_file():
                    stems.append(entry.name.removesuffix(path.suffix))
    except (OSError, ValueError):
        return ""
    # Without the ending, which all of them share and which would make any two names alike.
    meant = near_miss(path.stem, sorted(stems))
    return f' Did you mean "{meant}{path.suffix}"?' if meant is not None else ""

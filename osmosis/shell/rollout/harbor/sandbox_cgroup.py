"""Limits a whole sandbox by control groups, where this system lets us make some (issue 5: resource limits).

Version 2 is tried first, then version 1. Where neither can be written to, as for a user who is not root, the limits of single
processes have to do, and `None` says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from osmosis.pure.sandbox_plan import Limits, control_group_values

_ROOT = Path("/sys/fs/cgroup")
_PROCESSES = "cgroup.procs"


class ControlGroups:
    """The control groups of one sandbox. `members` are the files that a process writes to in order to join."""

    def __init__(self, directories: list[Path]) -> None:
        self._directories = directories

    @property
    def members(self) -> tuple[str, ...]:
        """One file a group."""
        return tuple(str(directory / _PROCESSES) for directory in self._directories)

    @classmethod
    def create(cls, name: str, limits: Limits) -> ControlGroups | None:
        """Groups called `name` with `limits`; None if the system has none to give."""
        for unified in (True, False):
            made: list[Path] = []
            try:
                for directory, values in _places(name, control_group_values(limits, unified=unified), unified):
                    if directory not in made:
                        directory.mkdir()
                        made.append(directory)
                    for file, value in values.items():
                        _put(directory / file, value)
            except OSError:
                cls(made).remove()
                continue
            if made:
                return cls(made)
        return None

    def remove(self) -> bool:
        """Remove the groups; False if one of them still has a process in it."""
        empty = True
        for directory in self._directories:
            try:
                directory.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                empty = False
        return empty


def _places(name: str, values: dict[str, dict[str, str]], unified: bool) -> Iterator[tuple[Path, dict[str, str]]]:
    if not unified:
        yield from ((_ROOT / controller / name, files) for controller, files in values.items())
        return
    offered = (_ROOT / "cgroup.controllers").read_text().split()
    if not values.keys() <= set(offered):
        raise FileNotFoundError(f"no controllers {', '.join(values)}")
    _put(_ROOT / "cgroup.subtree_control", " ".join(f"+{controller}" for controller in values))
    yield from ((_ROOT / name, files) for files in values.values())


def _put(path: Path, value: str) -> None:
    """Write to a file that must be there already."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, value.encode())
    except OSError:
        if path.name != "memory.swap.max":  # absent or fixed on systems without swap accounting
            raise
    finally:
        os.close(descriptor)

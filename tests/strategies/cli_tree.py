"""The tree of commands as it is, for everything that must hold of each of them."""

from __future__ import annotations

from collections.abc import Iterator

from cyclopts import App

from osmosis.shell.cli.app import build_app

Path = tuple[str, ...]


def walk(app: App, path: Path = ()) -> Iterator[tuple[Path, App]]:
    """Every group and command with the words that lead to it."""
    yield path, app
    for name in app:
        if not name.startswith("-"):
            yield from walk(app[name], (*path, name))


def words(line: str) -> list[str]:
    """A command line without quoting."""
    return line.split()


TREE = dict(walk(build_app()))
GROUPS = [path for path, app in TREE.items() if any(not name.startswith("-") for name in app)]
COMMANDS = {" ".join(path): path for path in TREE if path not in GROUPS}

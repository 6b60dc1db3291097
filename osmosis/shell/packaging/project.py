"""Finds a rollout project and its package on disk (contract: rollout_protocol section 15)."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from osmosis.pure.bundle import is_excluded

PYPROJECT = "pyproject.toml"


def package_roots(code_dir: Path | str) -> tuple[Path, ...]:
    """Where a project's package may lie: the project itself, or its `src`."""
    code_dir = Path(code_dir)
    return tuple(root for root in (code_dir, code_dir / "src") if root.is_dir())


def find_package(code_dir: Path | str) -> str:
    """The name of the project's one package. Raises ValueError if there is none, or more than one."""
    found = {
        path.name
        for root in package_roots(code_dir)
        for path in root.iterdir()
        if (path / "__init__.py").is_file() and not is_excluded(path.name) and path.name.isidentifier()
    }
    if len(found) != 1:
        names = ", ".join(sorted(found)) or "none"
        raise ValueError(
            f"{code_dir} must hold exactly one package (a directory with __init__.py); found: {names}. Name it with package="
        )
    return found.pop()


def find_package_dir(code_dir: Path | str, package: str | None = None) -> Path:
    """The directory of the project's package. Raises ValueError if it is not there."""
    name = package or find_package(code_dir)
    for root in package_roots(code_dir):
        if (root / name / "__init__.py").is_file():
            return root / name
    raise ValueError(f"{code_dir} has no package {name!r}")


def project_dir_for(target: object) -> Path:
    """The project that a class or object comes from: the nearest directory with a `pyproject.toml` above its top package.

    Raises ValueError if there is none, as for something that is defined in a script outside of a project.
    """
    module = sys.modules.get(getattr(target, "__module__", None) or "")
    if module is None or getattr(module, "__file__", None) is None:
        raise ValueError(f"{target!r} does not come from a file, so its project cannot be found; pass code_dir=")
    top = importlib.import_module(module.__name__.partition(".")[0])
    origin = Path(str(top.__file__ or module.__file__)).resolve()
    for directory in origin.parents:
        if (directory / PYPROJECT).is_file():
            return directory
    raise ValueError(f"{origin} is not below a directory with a {PYPROJECT}; pass code_dir=")


def source_files(root: Path) -> Iterator[tuple[str, Path]]:
    """(relative path, file) of a project's sources. Links to files are followed; raises ValueError for any other link."""
    for path in sorted(root.iterdir()):
        if is_excluded(path.name):
            continue
        if path.is_symlink() and not path.is_file():
            raise ValueError(f"{path} is a link to a directory, or leads nowhere; a bundle holds files only")
        if path.is_dir():
            yield from ((f"{path.name}/{inner}", file) for inner, file in source_files(path))
        elif path.is_file():
            yield path.name, path


def find_uv() -> str:
    """The `uv` beside this interpreter, else the one on the PATH. Raises FileNotFoundError when there is none."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise FileNotFoundError('uv was not found; install it with: pip install "osmosis-ai[harbor]"')
    return found


def cache_directory() -> Path:
    """The user's cache of this product."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given and os.path.isabs(given):
        return Path(given) / "osmosis"
    home = Path.home()
    return home / "Library" / "Caches" / "osmosis" if sys.platform == "darwin" else home / ".cache" / "osmosis"

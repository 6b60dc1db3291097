"""A directory of packages for the Python of a sandbox: bundle, SDK and all they need, as one archive (ruling 26).

uv lays it out on this machine, with the versions of the rollout's own environment; it fetches what it does not have yet from
wherever this machine's uv fetches. The sandbox only unpacks.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from osmosis.pure.bundle import BundleInfo, bundle_key, normalised
from osmosis.pure.sandbox_python import SandboxPython, constraints, site_requirements
from osmosis.shell.packaging.bundle import inspect_bundle
from osmosis.shell.packaging.project import cache_directory, find_uv
from osmosis.shell.packaging.sdk_wheel import sdk_files, sdk_requirements, write_sdk_wheel

SITES_DIR = cache_directory() / "sites"
ARCHIVE_NAME = "site.tar.gz"
COMPLETE_NAME = ".complete"
"""The last entry of the archive: where it lies, everything before it does too."""

_TIMEOUT_SEC = 600.0
_SHOWN_CHARACTERS = 2000
_FORMAT = "2"


class SiteError(RuntimeError):
    """The packages for a sandbox could not be brought together; the message quotes the end of what uv said."""


def site_key(wheel: Path) -> str:
    """A key of what goes into every site of a bundle, whatever the Python: 32 hex digits."""
    files = {**sdk_files(), "bundle": wheel.read_bytes()}
    return bundle_key(files.items(), [_FORMAT, constraints(_installed())])


def build_site(wheel: Path, python: SandboxPython, *, key: str | None = None, sites_dir: Path | None = None) -> Path:
    """The archive of packages for `python` to run the bundle `wheel`; one that was made before is reused. Raises SiteError."""
    place = (sites_dir or SITES_DIR) / (key or site_key(wheel)) / python.tag
    archive = place / ARCHIVE_NAME
    if archive.exists():
        return archive
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=place.parent) as scratch:
        target = _install(inspect_bundle(wheel), python, Path(scratch))
        unfinished = Path(scratch) / ARCHIVE_NAME
        _pack(target, unfinished)
        unfinished.replace(archive)
    return archive


def _installed() -> dict[str, str]:
    found = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found[normalised(name)] = distribution.version
    return found


def _install(bundle: BundleInfo, python: SandboxPython, scratch: Path) -> Path:
    target = scratch / "site"
    (scratch / "constraints.txt").write_text(constraints(_installed()))
    requirements = site_requirements(bundle.requirements, sdk_requirements())
    (scratch / "requirements.txt").write_text("".join(f"{text}\n" for text in requirements))
    place = ["--target", str(target), "--python-version", "{}.{}".format(*python.version), "--python-platform", python.platform]
    _uv(["--no-deps", str(write_sdk_wheel(scratch)), bundle.wheel], place, scratch)
    if requirements:
        fetched = ["--requirement", "requirements.txt", "--constraint", "constraints.txt", "--only-binary", ":all:"]
        _uv(fetched, place, scratch)
    return target


def _uv(arguments: Sequence[str], place: Sequence[str], scratch: Path) -> None:
    command = [find_uv(), "pip", "install", "--quiet", "--no-config", "--no-python-downloads", *place, *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")}
    try:
        done = subprocess.run(
            command,
            cwd=scratch,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SEC,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SiteError(f"uv did not bring the sandbox's packages together within {_TIMEOUT_SEC:.0f} s") from None
    if done.returncode != 0:
        raise SiteError(f"uv cannot bring the sandbox's packages together:\n{done.stderr.strip()[-_SHOWN_CHARACTERS:]}")


def _pack(directory: Path, archive: Path) -> None:
    with (
        archive.open("wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", compresslevel=3, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(directory.rglob("*")):
            inside = path.relative_to(directory)
            if not path.is_file() or "__pycache__" in inside.parts or inside.parts[0] == "bin":
                continue
            data = path.read_bytes()
            entry = tarfile.TarInfo(inside.as_posix())
            entry.size = len(data)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(data))
        tar.addfile(tarfile.TarInfo(COMPLETE_NAME))

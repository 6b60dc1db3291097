"""Packs the running SDK as a wheel: the sandbox gets exactly the code that the server runs (ruling 26).

It is made of the installed files, so it does not matter whether they came from a registry, a wheel or an editable checkout, and
no build backend is needed.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import osmosis
from osmosis.pure.bundle import SDK_NAME
from osmosis.shell.packaging.wheel_file import write_wheel

PACKAGES = ("osmosis", "osmosis_ai")

_WHEEL = b"Wheel-Version: 1.0\nGenerator: osmosis\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def sdk_files() -> dict[str, bytes]:
    """The SDK's own files by their names in a wheel."""
    root = Path(osmosis.__file__).resolve().parent.parent
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for package in PACKAGES
        for path in sorted((root / package).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def sdk_requirements() -> tuple[str, ...]:
    """The requirements of the SDK, with the markers of their extras."""
    return tuple(importlib.metadata.requires(SDK_NAME) or ())


def write_sdk_wheel(directory: Path) -> Path:
    """Write the SDK's wheel into `directory`."""
    info = f"osmosis_ai-{osmosis.__version__}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {SDK_NAME}", f"Version: {osmosis.__version__}"]
    lines += [f"Requires-Dist: {text}" for text in sdk_requirements()]
    metadata = ("\n".join(lines) + "\n").encode()
    path = directory / f"osmosis_ai-{osmosis.__version__}-py3-none-any.whl"
    write_wheel(path, {**sdk_files(), f"{info}/METADATA": metadata, f"{info}/WHEEL": _WHEEL}, info)
    return path

"""Writes wheels: the same content gives the same bytes (PEP 427)."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o644 << 16


def read_wheel(path: Path) -> dict[str, bytes]:
    """Every file of a wheel by its name. Raises ValueError for what is no wheel."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
    except (zipfile.BadZipFile, OSError) as error:
        raise ValueError(f"{path} is not a wheel: {error}") from None


def dist_info(files: Mapping[str, bytes], label: str) -> str:
    """The name of the one `.dist-info` directory among a wheel's files. Raises ValueError."""
    found = {name.partition("/")[0] for name in files if name.partition("/")[0].endswith(".dist-info")}
    if len(found) != 1:
        raise ValueError(f"{label} is not a wheel: it has {len(found)} .dist-info directories")
    return found.pop()


def write_wheel(path: Path, files: Mapping[str, bytes], info: str) -> None:
    """Write a wheel of `files` with a fresh RECORD in the directory `info`."""
    record = f"{info}/RECORD"
    content = {name: data for name, data in files.items() if name != record}
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in sorted(content.items())]
    content[record] = ("\n".join([*lines, f"{record},,"]) + "\n").encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(content, key=lambda item: (item.startswith(info), item)):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = _FILE_MODE
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content[name])


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()

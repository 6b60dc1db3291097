"""Opens a file or directory in the program that the desktop has for it, and does not wait for that program."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

_PROGRAMS: Mapping[str, tuple[str, ...]] = {"darwin": ("open",), "linux": ("xdg-open", "wslview")}
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
"""Variables of which one is set where there is a screen. macOS always has one."""


class Opened(msgspec.Struct, frozen=True):
    """What became of it: `fault` says in words why nothing was opened."""

    program: str | None = None
    fault: str | None = None


def open_path(path: Path, platform: str, environment: Mapping[str, str]) -> Opened:
    """Open `path`, which must be absolute. `platform` is `sys.platform`."""
    if platform != "darwin" and not any(environment.get(name) for name in _DISPLAYS):
        return Opened(fault="there is no screen here")
    candidates = _PROGRAMS.get(platform, _PROGRAMS["linux"])
    program = next((name for name in candidates if shutil.which(name, path=environment.get("PATH"))), None)
    if program is None:
        return Opened(fault=f"none of {', '.join(candidates)} is installed")
    nowhere = subprocess.DEVNULL
    try:
        subprocess.Popen([program, str(path)], stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    except OSError as error:
        return Opened(program, f"{program}: {error.strerror or error}")
    return Opened(program)

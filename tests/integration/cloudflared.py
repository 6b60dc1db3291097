"""Puts the stand-in for `cloudflared` on a PATH."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.integration import cloudflared_standin


class Program:
    """A `cloudflared` in `directory` that behaves as told."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        (directory / "standin.py").write_text(Path(cloudflared_standin.__file__).read_text())
        script = directory / "cloudflared"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{directory}/standin.py" "$@"\n')
        script.chmod(0o755)
        self.behave()

    def behave(self, *words: str) -> None:
        """What it does when it is started next."""
        (self.directory / "behaviour").write_text(" ".join(words))

    @property
    def seen(self) -> dict[str, Any]:
        """Arguments, environment and process id of its last start."""
        found: dict[str, Any] = json.loads((self.directory / "seen.json").read_text())
        return found

"""Make sure that there is a Chromium for the tests of the HTML report.

    python scripts/browser_env.py

Uses the one on the PATH, else installs Debian's package with apt-get, which needs the rights to do so. Elsewhere it says what
to install. Prints the path of the browser.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-dejavu-core")


def browser() -> str | None:
    """The path of the browser: `OSMOSIS_CHROMIUM`, else the first of the usual names on the PATH; None where there is none."""
    return os.environ.get("OSMOSIS_CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> None:
    """Install Debian's Chromium, or end with one clear message."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        sys.exit("browser_env: install Chromium with your system's package manager, or name one in OSMOSIS_CHROMIUM")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (("update",), ("install", "--yes", "--no-install-recommends", *PACKAGES)):
        finished = subprocess.run(("apt-get", "--quiet", *command), env=quiet, stdout=sys.stderr, check=False)
        if finished.returncode != 0:
            sys.exit(f"browser_env: apt-get {command[0]} failed with exit code {finished.returncode}")


if __name__ == "__main__":
    if browser() is None:
        install()
    print(browser() or sys.exit("browser_env: Chromium was installed and is not on the PATH"))

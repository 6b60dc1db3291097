"""Make `.venv-harbor`: the real Harbor beside this checkout, for the tests of sandboxes.

    python scripts/harbor_env.py [--python PATH]

Harbor needs Python 3.12. Versions are pinned with hashes in `tests/harbor/requirements.txt`, which follows from
`tests/harbor/requirements.in`; its first lines say how. A second run with the same pins does nothing. The tests:

    .venv-harbor/bin/python -m pytest tests/harbor
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.pinned_environment import ROOT, PinnedEnvironment

HARBOR = PinnedEnvironment("harbor_env", ROOT / ".venv-harbor", ROOT / "tests" / "harbor" / "requirements.txt", (3, 12))


def main() -> None:
    """Set the environment up, this checkout in it, or end with one clear message."""
    HARBOR.make()
    # With its metadata: a sandbox gets the requirements that they name.
    uv = HARBOR.directory / "bin" / "uv"
    command = [str(uv), "pip", "install", "--quiet", "--python", str(HARBOR.python), "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*command, "--editable", str(ROOT)], check=False)
    if done.returncode != 0:
        sys.exit(f"harbor_env: this checkout could not be installed (exit code {done.returncode})")


if __name__ == "__main__":
    main()

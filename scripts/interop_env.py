"""Make `.venv-interop`: the public `osmosis-ai` 0.3.8 in an environment of its own, as the other side of the wire.

    python scripts/interop_env.py [--python PATH]

The public package needs Python 3.12, so this looks for one: `--python`, then `python3.12` on the PATH, then pyenv's. Versions
are pinned with hashes in `tests/interop/requirements.txt`. A second run with the same pins does nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.pinned_environment import ROOT, PinnedEnvironment

INTEROP = PinnedEnvironment("interop_env", ROOT / ".venv-interop", ROOT / "tests" / "interop" / "requirements.txt", (3, 12))

if __name__ == "__main__":
    INTEROP.make()

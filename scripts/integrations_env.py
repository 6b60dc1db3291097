"""Make `.venv-integrations`: the agent frameworks that rollouts may use, beside this checkout, for the tests of integrations.

    python scripts/integrations_env.py [--python PATH]

The frameworks pull in dozens of packages that nothing else here needs, so they have an environment of their own. Versions are
pinned with hashes in `tests/interop/integrations.txt`. A second run with the same pins does nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.pinned_environment import ROOT, PinnedEnvironment

INTEGRATIONS = PinnedEnvironment(
    "integrations_env",
    ROOT / ".venv-integrations",
    ROOT / "tests" / "interop" / "integrations.txt",
    (3, 11),
    sources=(ROOT,),
)

if __name__ == "__main__":
    INTEGRATIONS.make()

"""Make `.venv-docs`: the generator of the documentation site, in an environment of its own.

    python scripts/docs_env.py [--python PATH]

The site needs nothing of Osmosis while it is drawn (`scripts/build_site.py` writes what comes from the code first), so the
generator and its theme stay out of `.venv`. Versions are pinned with hashes in `requirements/docs.txt`, which `just lock`
makes. A second run with the same pins does nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.pinned_environment import ROOT, PinnedEnvironment

DOCS = PinnedEnvironment("docs_env", ROOT / ".venv-docs", ROOT / "requirements" / "docs.txt", sys.version_info[:2])

if __name__ == "__main__":
    DOCS.make()

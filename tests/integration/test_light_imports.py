"""What starts the live display, or runs in a rollout's environment, stays light (design, section 3)."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["tally", "usage", "redaction", "dotenv", "metrics_file"])
def test_light_modules_do_not_load_polars(module):
    """What the live display and the rollout's environment import stays light."""
    code = f"import sys, osmosis.pure.{module}; sys.exit('polars' in sys.modules or 'litellm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0

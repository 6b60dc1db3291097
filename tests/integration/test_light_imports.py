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


def test_a_look_at_a_finished_run_loads_no_http():
    """A re-run with nothing to do, `--help` and a usage error pay for neither aiohttp nor polars nor LiteLLM (issue 6)."""
    code = (
        "import sys, osmosis.shell.cli.program, osmosis.shell.cli.eval_run, osmosis.shell.evaluation.run;"
        "sys.exit(bool({'aiohttp', 'polars', 'litellm', 'fastapi', 'pydantic', 'uvloop'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0

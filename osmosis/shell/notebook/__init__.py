"""The notebook door: `osmosis.open_run` and `osmosis.scan_runs` (issue 8)."""

from osmosis.shell.notebook.opened_run import OpenedRun, open_run
from osmosis.shell.notebook.scan import scan_runs

__all__ = ["OpenedRun", "open_run", "scan_runs"]

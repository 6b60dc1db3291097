from osmosis.shell.notebook import OpenedRun as OpenedRun
from osmosis.shell.notebook import open_run as open_run
from osmosis.shell.notebook import scan_runs as scan_runs

__version__: str

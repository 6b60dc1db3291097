"""Arguments that the commands which look at one run share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

RunArgument = Annotated[str, Parameter(help="Name of a run, or path of a run directory.")]
OutputOption = Annotated[
    Path | None, Parameter(name=("--output", "-o"), help="Directory for run directories [.osmosis/evals].")
]

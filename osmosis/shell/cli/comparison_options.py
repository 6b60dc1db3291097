"""Options that `eval compare` and `eval gate` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

OutputOption = Annotated[
    Path | None, Parameter(name=("--output", "-o"), help="Directory for run directories [.osmosis/evals].")
]
ConfidenceOption = Annotated[
    float, Parameter(validator=validators.Number(gt=0.5, lt=1), help="Confidence of the bounds [0.95].")
]
ClusterOption = Annotated[
    str | None, Parameter(help="Attribute of rows that belong together: label, prompt, or a metadata key.")
]
DatasetOption = Annotated[Path | None, Parameter(help="The baseline's dataset, for metadata keys.")]
ForceFlag = Annotated[bool, Parameter(help="Compare runs of different datasets by equal prompt and label.")]

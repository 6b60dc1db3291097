"""The task of Inspect in `peers.py`: one call, an exact comparison."""

from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.scorer import exact
from inspect_ai.solver import generate


@task
def trivial(rows):
    """Rows with `input` and `target`."""
    return Task(dataset=json_dataset(rows), solver=generate(), scorer=exact())

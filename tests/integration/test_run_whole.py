"""Whole runs, from the command line to the metrics."""

from __future__ import annotations

import pytest

from tests.integration.stub_model import StubModel
from tests.integration.workspaces import Workspace

pytestmark = pytest.mark.slow


async def test_a_run_from_config_to_metrics(workspace: Workspace, model: StubModel) -> None:
    """A run asks the model once an item, ends with 0, and its metrics count what happened."""
    workspace.write_config(n=2)
    workspace.write_rows("echo one", "echo two", labels={"echo two": "else"})
    ended = await workspace.run("--name", "first", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert model.calls == {"echo one": 2, "echo two": 2}
    assert ended.resource["succeeded"] == 4
    assert workspace.metrics("first")["summary"]["pass_rate"] == 0.5

"""`osmosis eval regrade` end to end: a new grader, stored samples, no model (issue 8)."""

from __future__ import annotations

import json

import pytest

from tests.integration.stub_model import StubModel
from tests.integration.workspaces import Ended, Workspace

pytestmark = pytest.mark.slow

LENIENT = 'ctx.set_reward(float(ctx.sample.messages[-1]["content"].endswith("two")))'
STRICT = 'ctx.set_reward(float(ctx.sample.messages[-1]["content"] == ctx.label))'


async def regrade(workspace: Workspace, name: str, *flags: str) -> Ended:
    """Grade the run `first` anew."""
    words = ["eval", "regrade", "first", "--name", name, "--dataset-file", "data/words.jsonl", "--json", *flags]
    return await workspace.run(words=words)


def change(workspace: Workspace, before: str, after: str) -> None:
    """Edit the rollout."""
    path = workspace.project / "main.py"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


async def test_a_new_grader_over_stored_samples(workspace: Workspace, model: StubModel) -> None:
    """The new run has the new grader's rewards, asked no model, names its parent, is sound, and is no run to be continued. What
    failed before it had a sample stays so; a sample that was not kept is said."""
    workspace.write_rows("echo one", "echo two", "raise oops", "echo three")
    assert (await workspace.run("--name", "first", "--json")).resource["failed"] == 1
    asked = dict(model.calls)
    by_row = {line["row_index"]: line for line in workspace.index("first")}
    (workspace.run_directory("first") / "rollout_trials" / by_row[3]["rollout_id"] / "sample.json").unlink()
    change(workspace, STRICT, LENIENT)
    ended = await regrade(workspace, "second")
    assert (ended.code, ended.err) == (0, "")
    counts = {
        key: ended.resource[key] for key in ("items", "graded", "carried_over", "without_sample", "passed_before", "passed")
    }
    assert counts == {"items": 4, "graded": 2, "carried_over": 1, "without_sample": 1, "passed_before": 3, "passed": 1}
    assert model.calls == asked
    lines = workspace.index("second")
    assert [line.get("reward") for line in lines] == [0.0, 1.0, None, None]
    assert [line.get("error_type") for line in lines] == [None, None, by_row[2]["error_type"], "no_stored_sample"]
    manifest = json.loads((workspace.run_directory("second") / "manifest.json").read_bytes())
    parent = json.loads((workspace.run_directory("first") / "manifest.json").read_bytes())
    assert manifest["provenance"]["parent_run_name"] == "first"
    assert manifest["inputs"]["regraded_from"] == parent["local_run_id"]
    assert (await workspace.run(words=["eval", "verify", "second", "--json"])).resource["findings"] == []
    found = (await workspace.run(words=["eval", "verify", "first", "--json"])).resource["findings"]
    assert [one["where"].rpartition("/")[2] for one in found] == ["sample.json"], "what was deleted above is missed"
    compared = await workspace.run(words=["eval", "compare", "first", "second", "--json"])
    (comparison,) = compared.resource["comparisons"]
    assert comparison["duration_ms"]["baseline"] is comparison["tokens"]["baseline"] is None
    assert [note.partition(":")[2] for note in comparison["notes"]] == [" latency left out", " tokens and cost left out"]
    refused = await workspace.run("--name", "second", "--json")
    assert refused.code == 1
    assert "regraded_from" in refused.said


async def test_what_cannot_be_regraded_leaves_nothing(workspace: Workspace, model: StubModel) -> None:
    """A server that would run workflows gets no work; another dataset and a taken name are refused. No directory remains."""
    await workspace.run("--name", "first")
    asked = dict(model.calls)
    assert (await regrade(workspace, "first")).code == 1
    original = workspace.dataset.read_bytes()
    workspace.write_rows("echo other")
    assert "is not the dataset" in (await regrade(workspace, "second")).said
    workspace.dataset.write_bytes(original)
    change(
        workspace,
        "backend = LocalBackend(",
        'os.environ.pop("_OSMOSIS_ROLLOUT_STORED_SAMPLES", None)\n    backend = LocalBackend(',
    )
    refused = await regrade(workspace, "second")
    assert (refused.code, "cannot grade stored samples" in refused.said) == (1, True)
    assert model.calls == asked
    assert {path.name for path in workspace.runs.iterdir()} == {".locks", "first"}

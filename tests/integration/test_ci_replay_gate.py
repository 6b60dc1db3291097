"""The recipe of `docs/ci.md`, for real: record once, commit cassette and baseline, replay in CI, gate against the baseline."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.integration.workspaces import Workspace

pytestmark = pytest.mark.slow

COMMITTED = ("manifest.json", "index.jsonl", "dataset_rows.jsonl", "metrics.json")
PROMPTS = [f"echo word {number}" for number in range(30)]
ITEM_DIFFERENCES = {"rollout_id", "duration_ms"}


def outcomes(workspace: Workspace, name: str) -> list[dict]:
    """The index without what differs from run to run."""
    return [{key: value for key, value in row.items() if key not in ITEM_DIFFERENCES} for row in workspace.index(name)]


async def test_replay_in_ci_passes_the_gate_and_a_worse_grader_does_not(workspace: Workspace, model) -> None:
    """Byte-identical retries pass exactly; the same answers judged worse fail; neither asks a model."""
    workspace.write_rows(*PROMPTS)
    recorded = await workspace.run("--name", "recorded", "--record", "cassette.jsonl")
    assert recorded.code == 0, recorded.said
    asked = model.calls.total()

    baseline = await workspace.run("--name", "baseline", "--replay", "cassette.jsonl")
    assert baseline.code == 0, baseline.said
    committed = workspace.root / "baselines" / "words"
    committed.mkdir(parents=True)
    for name in COMMITTED:
        shutil.copy(workspace.run_directory("baseline") / name, committed)

    replayed = await workspace.run("--name", "ci", "--replay", "cassette.jsonl")
    assert replayed.code == 0, replayed.said
    assert outcomes(workspace, "ci") == outcomes(workspace, "baseline")
    assert workspace.metrics("ci")["summary"] == workspace.metrics("baseline")["summary"]
    gate = await workspace.run(words=["eval", "gate", "ci", "--baseline", "./baselines/words", "--json"])
    assert gate.code == 0, gate.said
    assert gate.resource["readings"][0]["bounds"]["method"] == "replay"

    main = workspace.project / "main.py"
    main.write_text(main.read_text().replace("ctx.set_reward(float(", "ctx.set_reward(0.0 * float("))
    worse = await workspace.run("--name", "worse", "--replay", "cassette.jsonl")
    assert worse.code == 0, worse.said
    gate = await workspace.run(words=["eval", "gate", "worse", "--baseline", "./baselines/words", "--json"])
    assert gate.code == 4, gate.said
    assert json.loads(gate.out)["status"] == "failed"
    assert model.calls.total() == asked

"""The runner keeps what a server did not (ruling 27)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osmosis.pure.protocol import Sample
from osmosis.shell.evaluation.sample_keeping import keep_sample

SAMPLE = Sample(messages=[{"role": "user", "content": "\ud800 hi"}], label="a", reward=1.0, metrics={"m": 1})


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """The directory of a rollout that left a trajectory."""
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "trajectory.json").write_text("{}")
    return tmp_path / "trial"


def test_a_sample_is_kept_beside_the_trajectory(trial: Path) -> None:
    """The whole sample, private, as valid UTF-8."""
    assert keep_sample(trial, SAMPLE)
    kept = json.loads((trial / "sample.json").read_bytes())
    assert kept["messages"] == [{"role": "user", "content": "\ufffd hi"}]
    assert (kept["label"], kept["reward"], kept["metrics"]) == ("a", 1.0, {"m": 1})
    assert (trial / "sample.json").stat().st_mode & 0o077 == 0


def test_nothing_is_replaced_or_followed(trial: Path, tmp_path: Path) -> None:
    """A file of the rollout's, a link in its place, a link in the directory's place, no trajectory: each is left as it is."""
    (trial / "sample.json").write_text("mine")
    assert not keep_sample(trial, SAMPLE)
    assert (trial / "sample.json").read_text() == "mine"
    (trial / "sample.json").unlink()
    (trial / "sample.json").symlink_to(tmp_path / "elsewhere")
    assert not keep_sample(trial, SAMPLE)
    (trial / "sample.json").unlink()
    (tmp_path / "link").symlink_to(trial)
    assert not keep_sample(tmp_path / "link", SAMPLE)
    assert not keep_sample(tmp_path / "nowhere", SAMPLE)
    (trial / "trajectory.json").unlink()
    assert not keep_sample(trial, SAMPLE)
    assert not keep_sample(trial, None)
    assert list(trial.iterdir()) == []
    assert not (tmp_path / "elsewhere").exists()

"""What happens to a trial's files afterwards, with everything hostile planted in them (rollout_protocol 13.8)."""

from __future__ import annotations

import json
import os

import pytest

from osmosis.shell.rollout.harbor.aftermath import Aftermath, settle
from osmosis.shell.rollout.harbor.evidence import EVIDENCE_NAME, verify_trial_evidence

KEY = "sk-0123456789abcdef/+"


@pytest.fixture
def trial(tmp_path):
    """A trial's directory as Harbor leaves it, with the key everywhere."""
    trial = tmp_path / "trials" / "trial-r"
    for directory in ("agent", "verifier/.osmosis-artifacts", "artifacts/logs/artifacts/deep", "steps/one/agent"):
        (trial / directory).mkdir(parents=True)
    (trial / "result.json").write_text(json.dumps({"key": KEY}))
    (trial / "trial.log").write_text(f"Bearer {KEY}\n")
    (trial / "agent" / "log.txt").write_bytes(b"\0binary " + KEY.encode() + json.dumps(KEY).encode())
    (trial / "steps" / "one" / "agent" / "x.txt").write_text("x")
    (trial / "verifier" / ".osmosis-artifacts" / "note.txt").write_text("note")
    (trial / "artifacts" / "logs" / "artifacts" / "deep" / "a.txt").write_text(f"a {KEY}")
    return trial


@pytest.fixture
def secret(tmp_path):
    """A file of this machine."""
    path = tmp_path / "secret.txt"
    path.write_text("machine")
    return path


def work(trial, tmp_path, **changes):
    """Everything that is to be done."""
    given = {"trial": trial, "kept": tmp_path / "kept" / "r", "rollout_id": "r", "process_id": "p", "key": KEY}
    return Aftermath(**(given | {"cancelled": False, "clean_up": True} | changes))


def everything(directory):
    """The bytes of every file below a directory."""
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


def test_no_key_is_left_anywhere(trial, tmp_path):
    """In no form, in text and binary; logs, evidence and artifacts of both are where a runner looks."""
    assert settle(work(trial, tmp_path)) == ()
    kept = tmp_path / "kept" / "r"
    assert KEY.encode() not in everything(kept)
    assert (kept / "logs" / "trial.log").read_text() == "Bearer [REDACTED]\n"
    assert (kept / "artifacts" / "logs" / "artifacts" / "deep" / "a.txt").read_text() == "a [REDACTED]"
    assert (kept / "artifacts" / "logs" / "artifacts" / "note.txt").read_text() == "note"
    assert (kept / "logs" / "steps" / "one" / "agent" / "x.txt").exists()
    assert verify_trial_evidence(kept / EVIDENCE_NAME, "r", "p").complete
    assert not trial.exists()


def test_hostile_entries_are_deleted_with_a_reason(trial, tmp_path, secret):
    """Wherever they lie: none is followed, read or kept."""
    artifacts = trial / "artifacts" / "logs" / "artifacts"
    (artifacts / "link").symlink_to(secret)
    (artifacts / "up").symlink_to("../../../../..")
    (trial / "agent" / "trajectory.json").symlink_to(secret)
    os.mkfifo(trial / "verifier" / "pipe")
    with (artifacts / "giant").open("wb") as file:
        file.truncate(1 << 42)
    said = settle(work(trial, tmp_path, clean_up=False))
    assert len(said) == 5
    assert all(any(name in text for text in said) for name in ("link", "up", "trajectory.json", "pipe", "giant"))
    kept = tmp_path / "kept" / "r"
    assert b"machine" not in everything(kept)
    assert not [path for path in kept.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
    assert secret.read_text() == "machine"
    assert trial.exists()


def test_a_cancelled_trial_keeps_its_evidence_alone(trial, tmp_path):
    """No logs, no artifacts."""
    settle(work(trial, tmp_path, cancelled=True))
    assert [path.name for path in (tmp_path / "kept" / "r").iterdir()] == [EVIDENCE_NAME]
    assert not trial.exists()


def test_evidence_that_was_tampered_with_is_no_evidence(trial, tmp_path):
    """A changed byte, a file too many, one too few, another rollout's."""
    settle(work(trial, tmp_path))
    evidence = tmp_path / "kept" / "r" / EVIDENCE_NAME
    with pytest.raises(ValueError, match="of rollout"):
        verify_trial_evidence(evidence, "other")
    (evidence / "logs" / "more.txt").write_text("more")
    with pytest.raises(ValueError, match="not listed"):
        verify_trial_evidence(evidence, "r")
    (evidence / "logs" / "more.txt").unlink()
    (evidence / "result.json").write_text("{}")
    with pytest.raises(ValueError, match="has changed"):
        verify_trial_evidence(evidence, "r")
    (evidence / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"holds no manifest\.json"):
        verify_trial_evidence(evidence, "r")


def test_without_a_trial_there_is_nothing_to_do(tmp_path, secret):
    """Nor behind a link in its place."""
    (tmp_path / "link").symlink_to(tmp_path)
    for place in (tmp_path / "missing", tmp_path / "link"):
        assert settle(work(place, tmp_path)) == ()
    assert secret.exists()

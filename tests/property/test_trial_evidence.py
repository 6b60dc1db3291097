"""Evidence of trials: what a manifest says, and what is wrong with a directory (rollout_protocol 13.8)."""

from __future__ import annotations

import msgspec
import pytest

from osmosis.pure.trial_evidence import (
    EvidenceFile,
    EvidenceManifest,
    decode_evidence_manifest,
    encode_evidence_manifest,
    evidence_problems,
    excluded_kind,
)

RESULT = EvidenceFile("result.json", 2, "aa")
LOG = EvidenceFile("logs/trial.log", 3, "bb")
SOUND = EvidenceManifest(rollout_id="r", process_id="p", files=(RESULT, LOG))


def problems(manifest=SOUND, present=(RESULT, LOG), strange=(), rollout_id="r", process_id="p"):
    """What is wrong."""
    found = {file.path: file for file in present}
    return evidence_problems(manifest, found, strange, rollout_id=rollout_id, process_id=process_id)


def test_sound_evidence():
    """Nothing to complain about, also for somebody who does not ask for the server."""
    assert problems() == ()
    assert problems(process_id=None) == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rollout_id": "other"}, "of rollout"),
        ({"process_id": "q"}, "of server"),
        ({"present": (RESULT,)}, "'logs/trial.log' is missing"),
        ({"present": (RESULT, LOG, EvidenceFile("logs/x", 1, "c"))}, "'logs/x' is not listed"),
        ({"present": (RESULT, EvidenceFile("logs/trial.log", 3, "cc"))}, "'logs/trial.log' has changed"),
        ({"strange": ("logs/pipe",)}, "'logs/pipe' is not a regular file"),
        ({"manifest": msgspec.structs.replace(SOUND, complete=False, errors=("gone",))}, "not complete: gone"),
        ({"manifest": msgspec.structs.replace(SOUND, files=(LOG,))}, "result.json is not listed"),
        ({"manifest": msgspec.structs.replace(SOUND, files=(RESULT, LOG, LOG))}, "twice"),
        (
            {"manifest": msgspec.structs.replace(SOUND, files=(RESULT, LOG, EvidenceFile("logs/../x", 1, "c")))},
            "does not belong",
        ),
        ({"manifest": msgspec.structs.replace(SOUND, files=(RESULT, LOG, EvidenceFile("x", 1, "c")))}, "does not belong"),
    ],
)
def test_whatever_is_wrong_is_said(changes, said):
    """Each kind of damage by its own sentence."""
    assert any(said in problem for problem in problems(**changes))


def test_a_manifest_survives_its_file():
    """In the order of paths; other versions and malformed ones are refused."""
    data = encode_evidence_manifest(SOUND)
    assert decode_evidence_manifest(data) == msgspec.structs.replace(SOUND, files=(LOG, RESULT))
    for wrong in (b"[]", b"{}", data.replace(b"evidence-v1", b"evidence-v9"), data[:-5]):
        with pytest.raises(ValueError, match=r"."):
            decode_evidence_manifest(wrong)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("logs/agent/opencode/opencode.db-wal", "opencode_database"),
        ("logs/agent/opencode/snapshot/ab/cd", "opencode_snapshot"),
        ("logs/agent/snapshot/x", None),
        ("logs/agent/opencode/log.txt", None),
    ],
)
def test_what_proves_nothing_is_left_out(path, kind):
    """And counted."""
    assert excluded_kind(path) == kind

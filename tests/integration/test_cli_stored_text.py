"""Text that models, rollouts and other people stored never steers the terminal of whoever looks at it (issue 9).

Everything that a run, a cassette, a config or a data file can hold is hostile here; every command that prints some of it runs.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from osmosis.pure.canonical import canonical_json
from osmosis.pure.cassette import CallKey, Cassette, Header, RecordedCall, encode_cassette
from osmosis.pure.metrics_file import EvalRunStatus, encode_metrics
from osmosis.pure.stored_run import StoredRun
from osmosis.shell.cli.main import main
from tests.integration.stored_runs import write_run, write_workspace
from tests.strategies.cli_records import metrics
from tests.strategies.comparisons import Cell, stored_run

TITLE = "\x1b]0;owned\x07"
HOSTILE = f"{TITLE}\x1b[31mred\x9b2J\x7f\x08\r\u202etxt\u2066 [bold]x[/bold]"
NAME = "run\x1b[2J\u202e"
CELLS: list[list[Cell]] = [[1.0], [0.0], [HOSTILE], ["timeout"], [None]]

CONFIG = f"""\
[experiment]
rollout = {json.dumps(HOSTILE)}
entrypoint = {json.dumps(HOSTILE)}
model_path = {json.dumps(HOSTILE)}
dataset = {json.dumps(HOSTILE)}
{json.dumps(HOSTILE)} = 1

[secrets]
required = []
"""


def hostile_run(name: str) -> StoredRun:
    """A run whose every text is hostile."""
    texts = [HOSTILE] * len(CELLS)
    run = stored_run(name, CELLS, prompts=texts, labels=texts, message=HOSTILE)
    inputs = {**run.manifest.inputs, "model_path": HOSTILE, "rollout": {**run.manifest.inputs["rollout"], "name": HOSTILE}}
    provenance = {**run.manifest.provenance, "dataset_name": HOSTILE, "git_branch": HOSTILE, "git_head": HOSTILE}
    manifest = msgspec.structs.replace(run.manifest, inputs=inputs, provenance=provenance)
    return msgspec.structs.replace(run, manifest=manifest)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hostile runs, cassettes, a config, a dataset and records to judge, in the current directory."""
    root = write_workspace(tmp_path / "workspace", [hostile_run("one")])
    write_run(root / ".osmosis/evals", hostile_run(NAME))
    for name in ("one", NAME):
        run = root / ".osmosis/evals" / name
        found = metrics(EvalRunStatus.FINISHED)
        info = msgspec.structs.replace(found.eval_run, dataset_name=HOSTILE, model_name=HOSTILE, rollout_name=HOSTILE)
        (run / "metrics.json").write_bytes(encode_metrics(info, found.summary))
        line = f"2026-11-30T16:05:04Z INFO [{HOSTILE}] {HOSTILE}".replace("\n", " ")
        (run / "logs.txt").write_text(f"{line}\n{HOSTILE}\n")
        (run / "artifacts").mkdir()
        (run / "artifacts" / "a\x1b[31m").write_text(HOSTILE)
    for name, body in (("first", "x"), ("second", "y")):
        call = RecordedCall(CallKey(0, 0, HOSTILE, 0), {"q": 0}, 200, body)
        header = Header(HOSTILE, HOSTILE, HOSTILE)
        (root / f"{name}.jsonl").write_bytes(encode_cassette(Cassette(header, {call.key: call})))
    (root / "configs/eval/hostile.toml").write_text(CONFIG)
    record = {"solution_str": HOSTILE, "id": HOSTILE, "metadata": {HOSTILE: HOSTILE}}
    (root / "records.jsonl").write_bytes(canonical_json(record) + b"\n")
    (root / "broken.jsonl").write_bytes(canonical_json({HOSTILE: 1}) + b"\n")
    monkeypatch.chdir(root)
    monkeypatch.delenv("OSMOSIS_DEBUG", raising=False)
    return root


SHOWING = [
    ["eval", "list"],
    ["eval", "info", "one"],
    ["eval", "info", NAME],
    ["eval", "logs", "one"],
    ["eval", "open", NAME],
    ["eval", "verify", NAME],
    ["eval", "compare", "one", NAME, "--slice-by", "label"],
    ["eval", "gate", NAME, "--baseline", "one"],
    ["eval", "export", "one", "--format", "github", "--to", "out.md"],
    ["eval", "export", NAME, "--format", "jsonl", "--to", "out.jsonl"],
    ["eval", "report", NAME],
    ["eval", "info", HOSTILE],
    ["eval", "rubric", "--data", "records.jsonl", "--rubric", HOSTILE, "--model", "openai/m", "--replay", "first.jsonl"],
    ["eval", "rubric", "--data", HOSTILE, "--rubric", HOSTILE, "--model", "openai/m", "--replay", "first.jsonl"],
    ["eval", "run", "configs/eval/hostile.toml", "--dataset-file", "broken.jsonl"],
    ["cassette", "inspect", "first.jsonl"],
    ["cassette", "diff", "first.jsonl", "second.jsonl"],
    ["cassette", "prune", "first.jsonl", "--output", f"out{TITLE}.jsonl"],
    ["rollout", "init", HOSTILE],
    ["rollout", "validate", HOSTILE],
    ["rollout", "validate-loop", "--module", HOSTILE],
    ["eval", HOSTILE],
    [HOSTILE],
    ["eval", "run", f"--{HOSTILE}"],
    ["eval", "list", "--limit", HOSTILE],
    ["completion", HOSTILE],
]


def steering(text: str) -> Iterator[str]:
    """The characters of `text` that a terminal may act upon, tab and newline aside."""
    for character in text:
        bidirectional = unicodedata.bidirectional(character)
        if (unicodedata.category(character) == "Cc" and character not in "\t\n") or bidirectional in {
            *("LRE", "RLE", "LRO", "RLO", "PDF"),
            *("LRI", "RLI", "FSI", "PDI"),
        }:
            yield character


@pytest.mark.parametrize("mode", [[], ["--plain"], ["--json"]], ids=["rich", "plain", "json"])
@pytest.mark.parametrize("words", SHOWING, ids=lambda words: " ".join(words[:2]).encode("unicode_escape").decode())
def test_stored_text_steers_no_terminal(
    words: list[str], mode: list[str], workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is shown of it, on both streams and in every mode, is harmless; and no traceback comes of it."""
    main([*words, *mode])
    out, err = capsys.readouterr()
    assert any(shown in out + err for shown in ("owned", "run\\x1b", "run\\u001b")), "nothing hostile was shown"
    assert list(steering(out + err)) == []
    assert "Traceback" not in out + err
    assert "This is a defect" not in err
    if mode == ["--json"]:
        assert (out + err).isascii()
        assert all(json.loads(line) for line in (out + err).splitlines())


def test_the_test_sees_what_steers() -> None:
    """The test above could fail: every kind of hostile character is one that it looks for."""
    assert len(list(steering(HOSTILE))) == 9

"""`osmosis eval rubric` in real processes and in this one (E41; contract `cli.md` section 8; issue 7)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from osmosis.pure.rubric import read_blocks
from osmosis.pure.rubric_journal import RubricHeader
from osmosis.shell.cli.main import main
from osmosis.shell.judge.journal_file import JudgementJournal
from tests.integration.stub_judge import judging, says, verdict
from tests.integration.stub_provider import completion

KEY = "sk-judge-0123456789"
RECORDS = [
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "alpha"}], "id": "a", "human_score": 0.5},
    {"solution_str": "beta", "ground_truth": "b", "human_score": 0.75},
]


@pytest.fixture
def judge(monkeypatch):
    """A judge that scores by the candidate: 0.5 for alpha, 0.75 for beta."""
    scores = {"alpha": 0.5, "beta": 0.75}

    def reply(body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        candidate = read_blocks(body["messages"][1]["content"])["CANDIDATE_OUTPUT"]
        return 200, completion(verdict(scores.get(candidate, 0.0))), {}

    with judging(reply) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield stub


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """Two records in the current directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path


def run(capsys, *arguments: str) -> tuple[int, Any, Any]:
    """(exit code, result, error) of a command in JSON mode."""
    code = main(["eval", "rubric", "-d", "d.jsonl", "-r", "Is it right?", "--model", "gpt-5.2", *arguments, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, json.loads(err.splitlines()[-1]) if err else None


def test_the_result(judge, data, capsys):
    """The contract's resource, with agreement, calibration and usage; a bare gpt- model is OpenAI's."""
    code, result, error = run(capsys, "-n", "3")
    assert (code, error, result["status"], result["operation"]) == (0, None, "success", "eval.rubric")
    resource = result["resource"]
    assert resource["statistics"] == {"average": 0.625, "variance": 0.015625, "stdev": 0.125, "min": 0.5, "max": 0.75}
    assert (resource["model"], resource["data_path"], resource["number"]) == ("gpt-5.2", "d.jsonl", 3)
    assert (resource["record_count"], resource["error_count"], resource["pending"]) == (2, 0, 0)
    assert resource["agreement"]["krippendorff_alpha"] == 1.0
    assert resource["calibration"]["bias"] == 0.0
    assert resource["calibration"]["labelled"] == 2
    assert resource["usage"]["calls"] == 6
    assert resource["usage"]["total_tokens"] == 30
    assert resource["records"][0] == {
        "index": 1,
        "label": "a",
        "scores": [0.5] * 3,
        "explanations": ["because"] * 3,
        "errors": [],
        "statistics": {"average": 0.5, "variance": 0.0, "stdev": 0.0, "min": 0.5, "max": 0.5},
    }
    assert resource["records"][1]["label"] == "record[2]"
    assert len(judge.asked) == 6


@pytest.mark.parametrize(("output", "file"), [("out.json", "out.json"), ("new/", "new/rubric_eval_result.json"), (".", None)])
def test_the_output_file(judge, data, capsys, output, file):
    """The contract's one object, indented by two; a directory gets the usual name; records then stand there alone."""
    code, result, _ = run(capsys, "-o", output)
    path = Path(file or "rubric_eval_result.json")
    assert code == 0
    assert Path(result["resource"]["output_path"]) == path
    assert "records" not in result["resource"]
    text = path.read_text()
    document = json.loads(text)
    assert list(document)[:7] == ["generated_at", "model", "rubric", "data_path", "number", "overall_statistics", "records"]
    assert text.startswith('{\n  "generated_at"')
    assert document["records"][0]["scores"] == [0.5]


def test_the_rubric_from_a_file(judge, data, capsys):
    """`@FILE` is read as UTF-8."""
    Path("r.txt").write_text("Ist es höflich?")
    assert run(capsys, "-r", "@r.txt")[0] == 2  # given twice
    assert main(["eval", "rubric", "-d", "d.jsonl", "-r", "@r.txt", "--model", "openai/x", "--json"]) == 0
    assert judge.asked[0]["messages"][1]["content"].startswith("Rubric:\nIst es höflich?\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--data", "none.jsonl"], 2, "more than once"),
        (["--score-min", "1", "--score-max", "1"], 1, "must be greater"),
        (["--number", "0"], 2, "must be >= 1"),
        (["--timeout", "0"], 1, "positive"),
        (["--resume"], 2, "--resume needs --output"),
        (["--record", "a", "--replay", "b"], 2, "exclude each other"),
        (["--replay", "none.jsonl"], 1, "There is no cassette"),
    ],
)
def test_mistakes_reach_no_judge(judge, data, capsys, arguments, code, message):
    """Each is one error before anything is asked."""
    found, _, error = run(capsys, *arguments)
    assert found == code
    assert message in json.dumps(error)
    assert judge.asked == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-d", "none.jsonl", "-r", "x"], "none.jsonl cannot be read"),
        (["-d", "d.jsonl", "-r", " "], "rubric is blank"),
        (["-d", "d.jsonl", "-r", "@none"], "none cannot be read"),
    ],
)
def test_input_that_cannot_be_read(judge, data, capsys, arguments, message):
    """It is an error that names the file."""
    assert main(["eval", "rubric", *arguments, "--model", "openai/x"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("model", ["gpt-5.2", "anthropic/claude-x", "llama"])
def test_a_model_that_cannot_be_called_fails_every_judgement(judge, data, capsys, monkeypatch, model):
    """Without a key, or a provider, each record has the error, the output is written, and no call is made."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    code = main(["eval", "rubric", "-d", "d.jsonl", "-r", "x", "--model", model, "-o", "o.json", "--json"])
    error = json.loads(capsys.readouterr().err)["error"]
    assert (code, error["code"]) == (1, "PLATFORM_ERROR")
    assert error["details"]["error_count"] == 2
    assert [len(record["errors"]) for record in json.loads(Path("o.json").read_text())["records"]] == [1, 1]
    assert judge.asked == []


def test_failed_judgements_are_collected_and_tried_again_on_resume(judge, data, capsys):
    """Exit code 1 and PLATFORM_ERROR with the resource; the scores are kept; resuming asks for the failed ones alone."""
    good = judge.reply
    judge.reply = lambda body: (
        (400, {"error": {"message": f"no {KEY}"}}, {}) if "beta" in body["messages"][1]["content"] else good(body)
    )
    code, result, error = run(capsys, "-o", "o.json")
    assert (code, result, error["error"]["code"]) == (1, None, "PLATFORM_ERROR")
    assert error["error"]["details"]["statistics"]["average"] == 0.5
    assert KEY not in json.dumps(error)
    assert KEY not in Path("o.json").read_text()
    judge.reply = good
    before = len(judge.asked)
    code, result, _ = run(capsys, "-o", "o.json", "--resume")
    assert (code, result["resource"]["resumed"], len(judge.asked) - before) == (0, 1, 1)
    assert json.loads(Path("o.json").read_text())["overall_statistics"]["average"] == 0.625


def test_resuming_makes_only_what_is_missing(judge, data, capsys):
    """A higher number adds judgements; a finished one asks nothing; without --resume all is judged anew."""
    assert run(capsys, "-o", "o.json", "-n", "2")[0] == 0
    first = json.loads(Path("o.json").read_text())["records"]
    assert run(capsys, "-o", "o.json", "-n", "2", "--resume")[1]["resource"]["resumed"] == 4
    assert len(judge.asked) == 4
    assert json.loads(Path("o.json").read_text())["records"] == first
    assert run(capsys, "-o", "o.json", "-n", "3", "--resume")[1]["resource"]["resumed"] == 4
    assert len(judge.asked) == 6
    assert run(capsys, "-o", "o.json", "-n", "1")[1]["resource"]["resumed"] == 0
    assert len(judge.asked) == 8


def test_a_journal_of_other_judgements_is_not_mixed_in(judge, data, capsys):
    """Another rubric is a conflict that says what changed; nothing is lost."""
    run(capsys, "-o", "o.json")
    journal = Path("o.json.journal.jsonl").read_bytes()
    code = main(["eval", "rubric", "-d", "d.jsonl", "-r", "Other?", "--model", "gpt-5.2", "-o", "o.json", "--resume", "--json"])
    error = json.loads(capsys.readouterr().err)["error"]
    assert (code, error["code"], error["details"]["changed"]) == (1, "CONFLICT", ["rubric"])
    assert Path("o.json.journal.jsonl").read_bytes() == journal


def test_a_journal_that_is_open_elsewhere_is_refused(judge, data, capsys):
    """Two commands never pay for the same judgements."""
    holder = JudgementJournal(Path("o.json.journal.jsonl"), RubricHeader("d", "r", "m", 0.0, 1.0), resume=False)
    try:
        code, _, error = run(capsys, "-o", "o.json")
    finally:
        holder.close()
    assert (code, error["error"]["code"]) == (1, "CONFLICT")
    assert judge.asked == []


def test_an_output_that_cannot_be_written_is_found_out_first(judge, data, capsys):
    """Nothing is judged when the journal cannot be made."""
    Path("file").write_text("")
    code, _, error = run(capsys, "-o", "file/o.json")
    assert code == 1
    assert "cannot be written" in error["error"]["message"]
    assert judge.asked == []


def test_a_key_on_the_command_line_works_and_is_warned_about(judge, data, capsys):
    """It is used, redacted, and deprecated."""
    code = main(["eval", "rubric", "-d", "d.jsonl", "-r", "x", "--model", "openai/x", "--api-key", "cli-key-123456", "--json"])
    err = capsys.readouterr().err
    assert code == 0
    assert json.loads(err)["warning"]["code"] == "DEPRECATION"
    assert set(judge.keys) == {"Bearer cli-key-123456"}
    assert "cli-key-123456" not in err


def test_record_and_replay(judge, data, capsys, monkeypatch):
    """What was recorded replays to the same records with no key and no call."""
    recorded = run(capsys, "-n", "2", "--record", "c.jsonl")[1]["resource"]["records"]
    asked = len(judge.asked)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert run(capsys, "-n", "2", "--replay", "c.jsonl")[1]["resource"]["records"] == recorded
    assert len(judge.asked) == asked
    assert KEY not in Path("c.jsonl").read_text()


def test_people_get_records_and_numbers(judge, data, capsys):
    """Rich and plain output name each record's scores with four decimals, and progress goes to standard error."""
    for mode in ([], ["--plain"]):
        assert main(["eval", "rubric", "-d", "d.jsonl", "-r", "x", "--model", "openai/x", "-n", "2", *mode]) == 0
        out, err = capsys.readouterr()
        assert "Run 01: score=0.5000 because" in out
        assert "average 0.6250" in out
        assert "Krippendorff's alpha 1.0000" in out
        assert ("4/4" in err) is (mode == [])


def command(*arguments: str, url: str) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    words = [
        sys.executable,
        "-m",
        "osmosis.shell.cli.main",
        "eval",
        "rubric",
        "-d",
        "d.jsonl",
        "-r",
        "x",
        "--model",
        "openai/x",
    ]
    environment = {**os.environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY}
    return subprocess.Popen([*words, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_what_was_judged_survives_the_end_of_the_process(tmp_path, monkeypatch, ending):
    """Killed or interrupted with calls in flight, a command loses none of the judgements that it has kept."""
    monkeypatch.chdir(tmp_path)
    Path("d.jsonl").write_text("".join(json.dumps({"solution_str": f"candidate {number}"}) + "\n" for number in range(40)))
    process: list[subprocess.Popen[str]] = []

    def reply(_: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if len(stub.asked) == 20:
            process[0].send_signal(ending)
        return 200, completion(verdict(0.5)), {}

    with judging(says(verdict())) as stub:
        stub.reply = reply
        process.append(command("-o", "o.json", "--max-in-flight", "2", "--json", url=stub.url))
        out, _ = process[0].communicate(timeout=300)
        held = Path("o.json.journal.jsonl").read_bytes().count(b"\n") - 1
        assert 1 <= held < 40
        if ending is signal.SIGINT:
            result = json.loads(out)
            assert (process[0].returncode, result["status"]) == (130, "interrupted")
            assert result["resource"]["pending"] == 40 - held
            assert result["next_steps_structured"][0]["argv"][-1] == "--resume"
        stub.reply = says(verdict(0.5))
        stub.settle()  # a call that the dead had made just then counts as theirs
        asked = len(stub.asked)
        process[0] = command("-o", "o.json", "--resume", "--json", url=stub.url)
        out, err = process[0].communicate(timeout=300)
        assert process[0].returncode == 0, err
        assert json.loads(out)["resource"]["resumed"] == held
        assert len(stub.asked) - asked == 40 - held
    assert len(json.loads(Path("o.json").read_text())["records"]) == 40

"""`eval list`, `info`, `logs`, `open` and `doctor` over real directories, with real locks, logs, servers and programs."""

from __future__ import annotations

import fcntl
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from osmosis.pure.journal import Attempt, InvocationStarted, Record, Result, Status, WorkItem, encode_record
from osmosis.pure.metrics_file import EvalRunStatus, encode_metrics
from osmosis.pure.plan import encode_manifest
from osmosis.shell.cli.main import main
from osmosis.shell.cli.result import Section
from osmosis.shell.cli.run_info_result import Looked, run_info_result
from tests.strategies.cli_records import FINISHED, WORKSPACE, history, manifest, metrics

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workspace, which is the current directory."""
    for name in ("configs/eval", "rollouts", ".osmosis/evals/.locks"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add_run(workspace: Path, name: str, status: EvalRunStatus | None, created_at: str = "2026-11-30T16:05:00Z") -> Path:
    """A run directory whose metrics say `status`, with three results and one item in flight in its journal."""
    directory = workspace / ".osmosis/evals" / name
    directory.mkdir()
    (directory / "manifest.json").write_bytes(encode_manifest(manifest(name, created_at)))
    if status is not None:
        found = metrics(status, 3)
        (directory / "metrics.json").write_bytes(encode_metrics(found.eval_run, found.summary))
    records: list[Record] = [
        InvocationStarted("a", "2026-11-30T16:05:04Z", "0.3.10"),
        *map(attempt, range(4)),
        *map(result, range(3)),
    ]
    lines = (encode_record(record, number) for number, record in enumerate(records, 1))
    (directory / "events.jsonl").write_bytes(b"".join(lines))
    (workspace / ".osmosis/evals/.locks" / f"{name}.lock").touch()
    return directory


def attempt(number: int) -> Attempt:
    """An item was dispatched."""
    return Attempt(WorkItem(number // 2, number % 2), f"{number:032x}", 1, "2026-11-30T16:05:05Z")


def result(number: int) -> Result:
    """An item succeeded."""
    item = WorkItem(number // 2, number % 2)
    return Result(item, number // 2, f"{number:032x}", Status.SUCCESS, "2026-11-30T16:05:06Z", 1000.0, reward=1.0)


def said(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, object]:
    """The JSON document of a command that ends with `code`."""
    assert main([*arguments, "--json"]) == code
    out, err = capsys.readouterr()
    document: dict[str, object] = json.loads(out if code == 0 else err)
    return document


def test_runs_in_every_state_are_listed(workspace: Path, capsys: Capture) -> None:
    """Running means that a process holds the lock; what is no run, or archived, is not in the list; a broken run is."""
    add_run(workspace, "one", EvalRunStatus.FINISHED, "2026-11-30T16:01:00Z")
    add_run(workspace, "two", EvalRunStatus.RUNNING, "2026-11-30T16:02:00Z")
    add_run(workspace, "three", EvalRunStatus.RUNNING, "2026-11-30T16:03:00Z")
    add_run(workspace, "four", None, "2026-11-30T16:04:00Z")
    add_run(workspace, "one.archive-20261130T160000Z", EvalRunStatus.FINISHED)
    (workspace / ".osmosis/evals/no-run").mkdir()
    broken = add_run(workspace, "five", EvalRunStatus.FINISHED, "2026-11-30T16:05:00Z")
    (broken / "metrics.json").write_bytes(b"{")
    with open(workspace / ".osmosis/evals/.locks/three.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        document = said(capsys, "eval", "list")
    items = {item["name"]: item["status"] for item in document["items"]}  # type: ignore[attr-defined]
    assert items == {"four": "interrupted", "three": "running", "two": "interrupted", "one": "finished", "five": "unreadable"}
    assert (document["total_count"], document["has_more"], document["archived_count"]) == (5, False, 1)
    dated = {item["name"] for item in document["items"] if item["as_of"]}  # type: ignore[attr-defined]
    assert dated == {"two", "three"}


def test_a_list_says_when_it_was_counted_and_a_detail_counts(workspace: Path, capsys: Capture) -> None:
    """A kill leaves old metrics: the list says how old they are, `eval info` has every durable result."""
    directory = add_run(workspace, "one", EvalRunStatus.RUNNING)
    found = metrics(EvalRunStatus.RUNNING, 1)
    (directory / "metrics.json").write_bytes(encode_metrics(found.eval_run, found.summary))
    os.utime(directory / "metrics.json", (1_796_054_400, 1_796_054_400))
    items: Any = said(capsys, "eval", "list")["items"]
    (item,) = items
    assert (item["progress"]["completed"], item["as_of"]) == (1, "2026-11-30T16:00:00.000000Z")
    data = said(capsys, "eval", "info", "one")["data"]
    assert data["summary"]["progress"]["completed"] == 3  # type: ignore[index]
    assert data["eval_run"]["as_of"] is None  # type: ignore[index]


def test_a_failure_is_shown_with_its_first_words() -> None:
    """`eval info` says where each type of error was met first and what it said; long messages end between words."""
    failed = {"status": Status.FAILED, "reward": None, "error_type": "agent_error"}
    results = {
        item: msgspec.structs.replace(result, **failed, error_message=f"{item.run_index}\nis {'wrong ' * 50}")
        for item, result in reversed(list(history().results.items()))
    }
    detail = run_info_result(Looked(FINISHED, msgspec.structs.replace(history(), results=results)), WORKSPACE)
    (section,) = [block for block in detail.blocks if isinstance(block, Section) and block.title == "Failures by type"]
    assert section.lines == (f"6 agent_error, first in row 0 run 0: 0 is {'wrong ' * 32}...",)


def test_looking_at_runs_changes_no_byte_and_hides_no_lock(workspace: Path, capsys: Capture) -> None:
    """A list, a detail and a log leave every file and its time as it was, and the lock is free afterwards."""
    add_run(workspace, "one", EvalRunStatus.RUNNING)
    before = {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in workspace.rglob("*")}
    for command in ("list", "info one", "logs one"):
        assert main(["eval", *command.split()]) == 0
    capsys.readouterr()
    assert {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in workspace.rglob("*")} == before
    with open(workspace / ".osmosis/evals/.locks/one.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_page_of_a_long_list(workspace: Path, capsys: Capture) -> None:
    """The newest come first, the rest is announced, and both ways to say how many exclude each other."""
    for number in range(5):
        add_run(workspace, f"run-{number}", EvalRunStatus.FINISHED, f"2026-11-30T16:0{number}:00Z")
    document = said(capsys, "eval", "list", "--limit", "2")
    assert [item["name"] for item in document["items"]] == ["run-4", "run-3"]  # type: ignore[attr-defined]
    assert (document["total_count"], document["has_more"], document["next_offset"]) == (5, True, 2)
    assert len(said(capsys, "eval", "list", "--all")["items"]) == 5  # type: ignore[arg-type]
    assert said(capsys, "eval", "list", "--all", "--limit", "2", code=2)["error"]["code"] == "VALIDATION"  # type: ignore[index]


def test_a_list_of_500_runs_reads_small_files_without_polars(workspace: Path) -> None:
    """500 runs are listed from manifests and metrics alone: no journal is opened, and polars is not loaded."""
    first = add_run(workspace, "run-0", EvalRunStatus.FINISHED)
    for number in range(1, 500):
        directory = workspace / f".osmosis/evals/run-{number}"
        directory.mkdir()
        for name in ("manifest.json", "metrics.json"):
            shutil.copy(first / name, directory / name)
    code = (
        "import sys\nopened = []\n"
        "sys.addaudithook(lambda event, arguments: event == 'open' and opened.append(str(arguments[0])))\n"
        "from osmosis.shell.cli.main import main\n"
        "assert main(['eval', 'list', '--all', '--json']) == 0\n"
        "assert 'polars' not in sys.modules\n"
        "mine = [path for path in opened if '.osmosis' in path]\n"
        "assert len(mine) == 1000, len(mine)\n"
        "assert not any(path.endswith('.jsonl') for path in mine)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["items"]) == 500


def test_a_run_that_is_going_on_shows_its_progress(workspace: Path, capsys: Capture) -> None:
    """Done, in flight and an interval, from the metrics and the journal of this moment."""
    add_run(workspace, "one", EvalRunStatus.RUNNING)
    with open(workspace / ".osmosis/evals/.locks/one.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data = said(capsys, "eval", "info", "one")["data"]
        main(["eval", "info", "one", "--plain"])
    assert data["eval_run"]["status"] == "running"  # type: ignore[index]
    assert data["summary"]["progress"] == {"completed": 3, "total": 6, "unit": "rollouts"}  # type: ignore[index]
    assert data["in_flight"] == 1  # type: ignore[index]
    plain = capsys.readouterr().out
    assert "Done: 3/6 \N{MIDDLE DOT} 50.0% \N{MIDDLE DOT} 1 in flight" in plain
    assert "Pass Rate 95% CI: " in plain


def test_a_damaged_journal_does_not_hide_the_run(workspace: Path, capsys: Capture) -> None:
    """The metrics are still shown, and what is wrong with the journal is said."""
    directory = add_run(workspace, "one", EvalRunStatus.FINISHED)
    data = bytearray((directory / "events.jsonl").read_bytes())
    data[40] ^= 1
    (directory / "events.jsonl").write_bytes(data)
    found = said(capsys, "eval", "info", "one")["data"]
    assert "does not match its checksum" in found["metrics_error"]  # type: ignore[index]
    assert found["summary"]["passed"] == 2  # type: ignore[index]


@pytest.mark.parametrize("command", ["info", "logs", "open"])
def test_a_mistyped_run_is_guessed(command: str, workspace: Path, capsys: Capture) -> None:
    """The name that was probably meant stands in the message."""
    add_run(workspace, "quiet-otter-12", EvalRunStatus.FINISHED)
    error = said(capsys, "eval", command, "quiet-oter-12", code=1)["error"]
    assert error["code"] == "NOT_FOUND"  # type: ignore[index]
    assert 'Did you mean "quiet-otter-12"?' in error["message"]  # type: ignore[index]


def test_a_log_is_read_page_by_page(workspace: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the newest page to the beginning by cursors: every line once, and what the environment holds is redacted."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-live-0123456789")
    directory = add_run(workspace, "one", EvalRunStatus.FINISHED)
    lines = [f"2026-11-30T16:05:{number:02d}Z INFO [run] line {number} sk-live-0123456789" for number in range(10)]
    (directory / "logs.txt").write_text("".join(f"{line}\n" for line in lines))
    found: list[str] = []
    cursor: list[str] = []
    while True:
        page = said(capsys, "eval", "logs", "one", "--limit", "4", *cursor)
        found = [item["message"] for item in page["items"]] + found  # type: ignore[attr-defined]
        if page["next_cursor"] is None:
            break
        cursor = ["--cursor", str(page["next_cursor"])]
    assert found == [f"line {number} [REDACTED]" for number in range(10)]
    said(capsys, "eval", "logs", "one", "--cursor", "99999", code=1)
    said(capsys, "eval", "logs", "one", "--limit", "201", code=2)


def test_a_log_that_is_a_link_is_not_followed(workspace: Path, capsys: Capture) -> None:
    """A run directory from somebody else cannot show files of this machine."""
    directory = add_run(workspace, "one", EvalRunStatus.FINISHED)
    (directory / "logs.txt").symlink_to("/etc/hostname")
    assert said(capsys, "eval", "logs", "one", code=1)["error"]["code"] == "VALIDATION"  # type: ignore[index]


def test_a_run_is_opened_in_the_desktops_program(workspace: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report if there is one, else the directory; without a screen the path is told and nothing is started."""
    directory = add_run(workspace, "one", EvalRunStatus.FINISHED)
    programs, told = workspace / "bin", workspace / "told"
    programs.mkdir()
    os.mkfifo(told)
    (programs / "xdg-open").write_text(f'#!/bin/sh\necho "$1" > {told}\n')
    (programs / "xdg-open").chmod(0o755)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    nothing = said(capsys, "eval", "open", "one")
    assert (nothing["status"], nothing["resource"]["opened"]) == ("noop", False)  # type: ignore[index]
    monkeypatch.setenv("DISPLAY", ":0")
    for target, kind in ((directory, "directory"), (directory / "report.html", "report")):
        if kind == "report":
            target.write_text("<html>")
        opened = said(capsys, "eval", "open", "one")
        assert told.read_text() == f"{target}\n"
        assert (opened["status"], opened["resource"]["target"]) == ("success", kind)  # type: ignore[index]


CONFIG = """\
[experiment]
rollout = "echo"
entrypoint = "main.py"
model_path = "openai/stub"
dataset = "words"

[secrets]
required = ["SEARCH_KEY"]
"""


class Models(http.server.BaseHTTPRequestHandler):
    """Answers `/v1/models` for the right key alone."""

    def do_GET(self) -> None:
        """One answer."""
        self.send_response(200 if self.headers.get("authorization") == "Bearer right" else 401)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def models() -> Iterator[str]:
    """The base URL of a model host on loopback."""
    with http.server.HTTPServer(("127.0.0.1", 0), Models) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def configured(workspace: Path) -> None:
    """A config and its rollout."""
    (workspace / "configs/eval/echo.toml").write_text(CONFIG)
    (workspace / "rollouts/echo").mkdir()
    for name in ("main.py", "pyproject.toml"):
        (workspace / "rollouts/echo" / name).touch()


def test_the_doctor_asks_the_models_host(
    workspace: Path, models: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that answers is fine, a refused key and a dead host are errors, and no key is ever shown."""
    configured(workspace)
    monkeypatch.setenv("OPENAI_BASE_URL", models)
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    monkeypatch.delenv("SEARCH_KEY", raising=False)
    document = said(capsys, "doctor")
    found = {check["name"]: check for check in document["resource"]["checks"]}  # type: ignore[index]
    assert found["Model openai/stub"]["health"] == "ok"
    assert (found["Secrets"]["health"], found["Secrets"]["finding"]) == ("warning", "not set: SEARCH_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "wrong-key-0123456789")
    error = said(capsys, "doctor", code=1)["error"]
    assert "refuses the key (HTTP 401)" in json.dumps(error)
    assert "wrong-key-0123456789" not in json.dumps(error)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert "Connection refused" in json.dumps(said(capsys, "doctor", code=1))


def test_the_doctor_makes_a_workspace_and_no_more(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --fix nothing changes; with it the directories come to be, once; what is there is not touched."""
    monkeypatch.chdir(tmp_path)
    said(capsys, "doctor", code=1)
    assert list(tmp_path.iterdir()) == []
    fixed = said(capsys, "doctor", "--fix")["resource"]["fixed"]  # type: ignore[index]
    assert fixed == [f"{path}/.gitkeep" for path in ("rollouts", "configs/eval", "configs/training", "data")]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert said(capsys, "doctor", "--fix")["resource"]["fixed"] == []  # type: ignore[index]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_the_doctor_writes_through_no_link(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in the way is a conflict, found before anything is made."""
    (tmp_path / "work").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work/configs").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "work")
    assert said(capsys, "doctor", "--fix", code=1)["error"]["code"] == "CONFLICT"  # type: ignore[index]
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["configs"]


def test_git_is_told_to_ignore_results(workspace: Path, capsys: Capture) -> None:
    """The line is added behind what is there, and only where git does not ignore the results yet."""
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True, timeout=300)
    (workspace / ".gitignore").write_text("*.pyc")
    assert ".gitignore" in said(capsys, "doctor", "--fix")["resource"]["fixed"]  # type: ignore[index]
    assert (workspace / ".gitignore").read_text() == "*.pyc\n.osmosis/\n"
    assert said(capsys, "doctor", "--fix")["resource"]["fixed"] == []  # type: ignore[index]


@pytest.mark.parametrize("words", [["eval", "in"], ["eval", "info", "--js"], ["doc"]])
def test_bash_completes_commands_and_options(words: list[str], capsys: Capture) -> None:
    """The script is valid bash and completes words of the tree, and the options that may stand anywhere."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    line = " ".join(["osmosis", *words])
    code = f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _osmosis; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split() == {"in": ["info"], "--js": ["--json"], "doc": ["doctor"]}[words[-1]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_every_command(shell: str, capsys: Capture) -> None:
    """Each shell's script knows the tree and both modes; `--version` is offered at the root alone."""
    script = said(capsys, "completion", shell)["resource"]["script"]  # type: ignore[index]
    for word in ("doctor", "verify", "completion", "json", "plain"):
        assert word in script
    options = [line for line in script.splitlines() if "Display application version" in line or '"--version"' in line]
    assert options
    assert not any("using_command" in line for line in options)
    assert len(options) <= 4

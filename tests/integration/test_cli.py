"""The real command in real processes, and its program in this one: exit codes, envelopes, streams, what may be imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from osmosis import __version__
from osmosis.shell.cli.app import build_app
from osmosis.shell.cli.main import main
from tests.integration.cli_endings import SECRET
from tests.integration.cli_endings import main as endings


def osmosis(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `osmosis` as a process of its own."""
    command = [sys.executable, "-m", "osmosis.shell.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(autouse=True)
def known_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A known provider variable holds a secret, and nothing else of this machine's environment matters."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.delenv("OSMOSIS_DEBUG", raising=False)


@pytest.mark.parametrize("arguments", [["--version"], ["-V"], ["--json", "--version"], ["--version", "--plain"]])
def test_the_version_is_plain_text_in_every_mode(arguments: list[str]) -> None:
    """Scripts may parse the first line without knowing the mode."""
    result = osmosis(*arguments)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"osmosis-ai {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments", [[], ["eval"], ["-h"], ["eval", "--help"], ["eval", "run", "-h"], ["eval", "run", "--help"]]
)
@pytest.mark.parametrize("mode", [[], ["--plain"]])
def test_help_at_every_level(arguments: list[str], mode: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Help goes to standard output, exits with 0, and names the options that may stand anywhere."""
    assert main([*arguments, *mode]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: osmosis")
    assert "--json" in out
    assert err == ""


USAGE_ERRORS = [
    (["evl"], "evl", 'Unknown command "evl". Did you mean "eval"?'),
    (["eval", "rum"], "eval rum", 'Unknown command "rum". Did you mean "run"?'),
    (["help"], "help", 'Unknown command "help". Commands: cassette, completion, doctor, eval, rollout.'),
    (["--jsno"], "<root>", 'Unknown option "--jsno". Did you mean "--json"?'),
    (["eval", "run"], "eval run", "Missing argument CONFIG."),
    (["eval", "run", "c.toml", "--nmae", "x"], "eval run", 'Unknown option "--nmae". Did you mean "--name"?'),
    (["eval", "run", "--hlep"], "eval run", 'Unknown option "--hlep". Did you mean "--help"?'),
    (["eval", "run", "c.toml", "--name"], "eval run", "Option --name needs a value."),
    (["eval", "run", "c.toml", "d.toml"], "eval run", "Unexpected argument: d.toml."),
    (["eval", "run", "c.toml", "--max-in-flight", "0"], "eval run", "--max-in-flight must be >= 1."),
    (["eval", "run", "c.toml", "--max-in-flight", "x"], "eval run", '--max-in-flight must be a whole number, not "x".'),
    (["eval", "run", "c.toml", "--listener-port", "65536"], "eval run", "--listener-port must be <= 65535."),
    (["eval", "run", "c.toml", "--fresh=maybe"], "eval run", '--fresh must be true or false, not "maybe".'),
    (["eval", "run", "c.toml", "--name", "a", "--name", "b"], "eval run", "Option --name was given more than once."),
    (["eval", "run", "c.toml", "--record", "a", "--replay", "b"], "eval run", "The cassette options exclude each other."),
    (
        ["eval", "run", "c.toml", "--secrets-file", "--yes"],
        "eval run",
        "--secrets-file must not start with a dash; write ./NAME for such a file.",
    ),
]


@pytest.mark.parametrize(("arguments", "command", "message"), USAGE_ERRORS)
def test_a_usage_error_is_one_message_and_exit_code_2(
    arguments: list[str], command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One message, one hint, nothing on standard output; the JSON envelope says the same."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, hint = err.splitlines()
    assert first == f"Error: {message}"
    assert hint.startswith("Hint: See `osmosis")

    assert main([*arguments, "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    envelope = json.loads(err)
    assert err.count("\n") == 1
    assert list(envelope) == ["schema_version", "command", "cli_version", "error"]
    assert (envelope["command"], envelope["cli_version"]) == (command, __version__)
    assert (envelope["error"]["code"], envelope["error"]["message"]) == ("VALIDATION", message)


def test_two_modes_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Asking for JSON and plain at once is a usage error, told in JSON."""
    assert main(["--json", "eval", "--plain"]) == 2
    assert json.loads(capsys.readouterr().err)["error"]["message"] == "--json and --plain exclude each other."


ENDINGS = [("well", 0), ("badly", 1), ("by-defect", 1), ("by-interrupt", 130), ("silently", 1)]


@pytest.mark.parametrize("mode", [[], ["--plain"], ["--json"]])
@pytest.mark.parametrize(("ending", "code"), ENDINGS)
@pytest.mark.parametrize("debug", ["", "1"])
def test_no_ending_shows_a_secret_or_a_stray_line(
    ending: str, code: int, mode: list[str], debug: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a command ends, in every mode: the right exit code, no secret, and standard output for results alone."""
    monkeypatch.setenv("OSMOSIS_DEBUG", debug)
    assert endings(["end", ending, *mode]) == code
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    assert bool(out) == (ending == "well")
    assert ("Traceback" in err) == (bool(debug) and ending in ("by-defect", "silently"))
    if mode == ["--json"] and ending != "well":
        error = json.loads(err)["error"]
        assert error["hint"]
        assert error["code"] == {"badly": "NOT_FOUND", "by-interrupt": "INTERRUPTED"}.get(ending, "INTERNAL")
    elif ending == "by-interrupt":
        assert err == "Interrupted.\n"


def test_a_defect_says_what_it_was_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """The name of the exception, the way to a traceback, and no traceback."""
    assert endings(["end", "by-defect", "--json"]) == 1
    envelope = json.loads(capsys.readouterr().err)
    assert envelope["command"] == "end by-defect"
    assert envelope["error"]["details"] == {"exception_type": "ZeroDivisionError"}
    assert envelope["error"]["message"] == "Unexpected ZeroDivisionError: divided [REDACTED]\nby zero"
    assert "OSMOSIS_DEBUG=1" in envelope["error"]["hint"]


CLOSED_STREAMS = [([1], 0), ([2], 0), ([1, 2], 0), ([0, 1, 2], 0)]


@pytest.mark.parametrize(("closed", "code"), CLOSED_STREAMS)
def test_closed_streams_are_survived(closed: list[int], code: int) -> None:
    """Started with standard streams closed, the command still does its work and exits as usual."""
    program = "import sys; from tests.integration.cli_endings import main; sys.exit(main(['end', 'well']))"
    close = "; ".join(f"os.close({descriptor})" for descriptor in closed)
    outer = f"import os, sys; {close}; os.execv(sys.executable, [sys.executable, '-c', {program!r}])"
    result = subprocess.run([sys.executable, "-c", outer], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == code
    assert "Traceback" not in result.stderr


def test_a_reader_that_went_away_is_no_error() -> None:
    """`osmosis ... | head -0`: no traceback, no message, and the exit code of the command."""
    read, write = os.pipe()
    os.close(read)
    program = "import sys; from tests.integration.cli_endings import main; sys.exit(main(['end', 'well']))"
    result = subprocess.run(
        [sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True, timeout=300, check=False
    )
    os.close(write)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_result_that_cannot_be_written_is_an_error() -> None:
    """A full disk behind standard output: the loss is told, and the exit code is not 0."""
    program = "import sys; from tests.integration.cli_endings import main; sys.exit(main(['end', 'well']))"
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False
        )
    assert result.returncode == 1
    assert result.stderr.startswith("Error: The result could not be written to standard output: No space left on device.")


@pytest.mark.parametrize("words", ["--version", "--help", "eval", "eval run --help", "--json --version"])
def test_a_quick_answer_that_cannot_be_written(words: str) -> None:
    """Version and help, too: a full disk is told, without a traceback; a reader who left and a closed stream are no error."""
    command = [sys.executable, "-m", "osmosis.shell.cli.main", *words.split()]
    with Path("/dev/full").open("w") as full:
        lost = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert lost.returncode == 1
    assert "The result could not be written to standard output: No space left on device." in lost.stderr
    assert "Traceback" not in lost.stderr
    read, write = os.pipe()
    os.close(read)
    gone = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    os.close(write)
    closing = f"import os, sys; os.close(1); os.execv(sys.executable, {command!r})"
    closed = subprocess.run([sys.executable, "-c", closing], stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert [(ended.returncode, ended.stderr) for ended in (gone, closed)] == [(0, "")] * 2


def test_an_ascii_locale_gets_ascii() -> None:
    """Where the locale cannot spell our symbols, ASCII stands in for them and nothing fails."""
    driver = [sys.executable, "-m", "tests.integration.cli_run_driver", "rich", "1"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": "."}
    result = subprocess.run(driver, capture_output=True, stdin=subprocess.DEVNULL, env=env, timeout=300, check=True)
    assert (result.stdout + result.stderr).isascii()
    assert b"-> running 240 work items" in result.stderr
    assert b"+-" in result.stdout
    assert b"\\u" not in result.stdout + result.stderr


def test_without_a_terminal_each_item_has_a_line() -> None:
    """Piped rich output: a line for the start and one for each item on standard error, the result on standard output."""
    driver = [sys.executable, "-m", "tests.integration.cli_run_driver", "rich", "3"]
    result = subprocess.run(driver, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=True)
    assert [line for line in result.stderr.splitlines() if "/240" in line] == [
        "0/240 pass \N{EN DASH}",
        "  1/240 row 1 run 0 success, reward 1.000, 0.8s \N{MIDDLE DOT} pass 100% \N{MIDDLE DOT} failed 0",
        "  2/240 row 2 run 0 success, reward 1.000, 0.8s \N{MIDDLE DOT} pass 100% \N{MIDDLE DOT} failed 0",
        "  3/240 row 3 run 0 failed, timeout, 0.8s \N{MIDDLE DOT} pass 67% \N{MIDDLE DOT} failed 1",
    ]
    assert "\x1b" not in result.stdout + result.stderr
    assert "Pass Rate" in result.stdout


@pytest.mark.parametrize("mode", ["plain", "json"])
def test_plain_and_json_show_no_progress(mode: str) -> None:
    """No line an item; in JSON, standard error holds JSON lines alone."""
    driver = [sys.executable, "-m", "tests.integration.cli_run_driver", mode, "3"]
    result = subprocess.run(driver, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=True)
    assert "1/240" not in result.stderr
    if mode == "json":
        assert [json.loads(line)["warning"]["code"] for line in result.stderr.splitlines()] == ["BRANCH_MISMATCH"]
        assert json.loads(result.stdout)["operation"] == "eval.run"


def test_without_a_terminal_nobody_is_asked() -> None:
    """A question that nobody can answer is an error that says how to answer it beforehand."""
    driver = [sys.executable, "-m", "tests.integration.cli_run_driver", "rich", "1", "--ask"]
    result = subprocess.run(driver, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=False)
    assert "Confirmation needed" in result.stderr
    assert "0/240" not in result.stderr


HEAVY = ("polars", "litellm", "aiohttp", "httpx", "pydantic", "numpy", "asyncio", "starlette", "ssl")


@pytest.mark.parametrize(
    ("arguments", "budget"),
    [
        (["--version"], 60),
        (["eval", "run", "--help"], 85),
        (["--plain", "eval"], 85),
        (["--json", "evl"], 320),
    ],
)
def test_starting_up_imports_little(arguments: list[str], budget: int) -> None:
    """A count of modules, not of seconds: start-up stays lean on every machine, and the heavy libraries stay out."""
    code = (
        "import contextlib, io, sys\n"
        "from osmosis.shell.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        "    main(sys.argv[1:])\n"
        "print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300, check=True)
    loaded = result.stdout.split()
    assert "osmosis.shell.cli.main" in loaded
    assert not set(HEAVY) & set(loaded)
    assert len(loaded) < budget


def test_every_command_has_help_and_injected_output() -> None:
    """Walk the tree: each command has a help text, and no flag reaches the injected output."""
    app = build_app()
    function, _, injected = app.parse_args(["eval", "run", "c.toml"], exit_on_error=False, print_error=False)
    assert function.__name__ == "eval_run"
    assert list(injected) == ["terminal"]
    for name in [name for name in app if not name.startswith("-")]:
        group = app[name]
        assert group.help
        assert all(group[command].help for command in group if not command.startswith("-"))

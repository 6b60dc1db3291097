r"""Secrets of every shape stay out of everything that is written or printed; the environment comes back (E7 to E9; issue 3).

Trajectories and artifacts are the user's (E9) and are not looked at.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.integration.stub_model import StubModel
from tests.integration.workspaces import Workspace

pytestmark = pytest.mark.slow

SECRETS = {
    "QUOTES": """he said "it's" so""",
    "BACKSLASHES": r"C:\new\table\x41",
    "LINES": "first line\nsecond\tline\r\nthird",
    "FOREIGN": "pässwörd-€-秘密-🔑",
    "SINGLE": "§",
    "SHORTER": "overlap-abcdef",
    "LONGER": "overlap-abcdef-ghijkl",
    "TAIL": "ghijkl-end",
    "SPACED": "  inner space  ",
}
KNOWN_AND_SHORT = "short7!"
PROVIDER_KEY = "sk-provider-key-in-the-file"


def escaped(value: str) -> set[str]:
    """The ways in which a value may show."""
    forms = {value, value.strip()}
    forms |= {json.dumps(form)[1:-1] for form in (value, value.strip())}
    forms |= {json.dumps(form, ensure_ascii=False)[1:-1] for form in (value, value.strip())}
    forms |= {repr(form)[1:-1] for form in (value, value.strip())}
    return forms


def showing(text: str, values: Iterable[str]) -> list[str]:
    """The forms of secrets that `text` shows."""
    return [form for value in values for form in escaped(value) if form in text]


def written(workspace: Workspace, name: str) -> dict[str, str]:
    """What the run wrote, but for the trials, trajectories and artifacts."""
    directory = workspace.run_directory(name)
    texts = {path.name: path.read_text(errors="replace") for path in directory.iterdir() if path.is_file()}
    return texts | {path.name: path.read_text() for path in (workspace.runs / ".locks").iterdir()}


@pytest.mark.parametrize("mode", ["rich", "plain", "json"])
async def test_secrets_show_nowhere(workspace: Workspace, mode: str) -> None:
    """Printed in pieces, raised, and escaped by the rollout: no secret is in any output, log, journal, manifest, index."""
    workspace.write_config(secrets=SECRETS)
    workspace.write_rows(*[f"leak {name}" for name in [*SECRETS, "OPENAI_API_KEY", "XAI_API_KEY"]], "echo fine")
    (workspace.root / "secrets").write_text(f"# comment\nexport OPENAI_API_KEY='{PROVIDER_KEY}'\n")
    flags = ["--name", "leaky", "--verbose", "--secrets-file", "secrets", *([] if mode == "rich" else [f"--{mode}"])]
    workspace.environment |= SECRETS | {"XAI_API_KEY": KNOWN_AND_SHORT}
    ended = await workspace.run(*flags)
    assert ended.code == 0, ended.said
    everywhere = written(workspace, "leaky") | {"stdout": ended.out, "stderr": ended.err}
    assert {"events.jsonl", "manifest.json", "logs.txt", "index.jsonl", "metrics.json"} <= everywhere.keys()
    secrets = [*SECRETS.values(), PROVIDER_KEY, workspace.environment["OPENAI_API_KEY"]]
    found = {name: forms for name, text in everywhere.items() if (forms := showing(text, secrets))}
    assert found == {}
    assert KNOWN_AND_SHORT in everywhere["logs.txt"]
    assert len([line for line in everywhere["events.jsonl"].splitlines() if "[REDACTED]" in line]) >= len(SECRETS)
    if mode == "json":
        assert ended.resource["failed"] == len(SECRETS) + 2


async def test_the_provider_quoting_the_key_does_not_show_it(workspace: Workspace) -> None:
    """A provider that repeats the key in its refusal: neither the halt reason nor the log has it."""
    workspace.write_rows("reject sk-test-0123456789")
    ended = await workspace.run("--name", "quoted", "--json")
    assert ended.code == 1
    assert "OPENAI_API_KEY" in ended.resource["halt_reason"]
    logs = written(workspace, "quoted")
    del logs["dataset_rows.jsonl"]
    assert not any("sk-test" in text for text in [ended.said, *logs.values()])


async def test_credentials_in_the_endpoint_are_refused(workspace: Workspace) -> None:
    """A base URL is recorded in the manifest, so one with a password stops the run; the message does not repeat it."""
    base = workspace.environment["OPENAI_BASE_URL"].replace("http://", "http://user:open-sesame@")
    ended = await workspace.run("--name", "proxied", "--json", OPENAI_BASE_URL=base)
    assert ended.code == 1
    assert "OPENAI_BASE_URL" in ended.err
    assert "open-sesame" not in ended.said
    assert workspace.nothing_left()


async def test_the_rollout_gets_required_secrets_and_not_the_provider_keys_of_the_file(workspace: Workspace) -> None:
    """Least privilege: a key that only the bridge needs does not enter the rollout's environment."""
    workspace.write_config(secrets=["NEEDED"])
    workspace.write_rows("leak NEEDED", "leak GROQ_API_KEY")
    (workspace.root / "secrets").write_text("NEEDED=a needed value\nGROQ_API_KEY=a groq key\n")
    assert (await workspace.run("--name", "least", "--secrets-file", "secrets", "--json")).resource["failed"] == 2
    first, second = (
        record["error_message"] for record in sorted(workspace.records("least", "result"), key=lambda r: r["item"])
    )
    assert "the key [REDACTED] is wrong" in first
    assert "GROQ_API_KEY" in second


async def test_secrets_come_from_standard_input(workspace: Workspace, model: StubModel) -> None:
    """`--secrets-file -` reads the pipe to its end; the provider sees the key that stood there."""
    workspace.write_rows("echo one")
    pipe_in = ["sh", "-c", f"printf 'OPENAI_API_KEY={PROVIDER_KEY}\\n' | \"$@\"", "sh"]
    async with workspace.start("--secrets-file", "-", "--json", wrapped=pipe_in) as running:
        ended = await running.end()
    assert ended.code == 0
    assert model.keys == {PROVIDER_KEY}


async def test_private_files_are_private(workspace: Workspace, model: StubModel) -> None:
    """Logs, journal and server record are readable by their owner alone, whatever the umask."""
    workspace.write_rows("held one")
    workspace.write_config(n=1)
    async with workspace.start("--name", "private", wrapped=["sh", "-c", 'umask 0; exec "$@"', "sh"]) as running:
        await model.wait_calls(1)
        directory = workspace.run_directory("private")
        modes = {name: os.stat(directory / name).st_mode & 0o777 for name in ("logs.txt", "server.json")}
        running.signal()
        await running.end()
    assert modes == {"logs.txt": 0o600, "server.json": 0o600}
    assert (directory / "events.jsonl").stat().st_mode & 0o777 == 0o600
    assert not re.search("sk-test", (directory / "logs.txt").read_text())


async def test_a_person_is_asked_for_the_models_key(workspace: Workspace, model: StubModel) -> None:
    """A key that is a required secret, and is nowhere, is asked for, not refused; it is neither shown nor kept."""
    workspace.write_config(secrets=["OPENAI_API_KEY"])
    key = "sk-typed-by-a-person-0123456789"
    person = (sys.executable, str(Path(__file__).with_name("typing_person.py")))
    answers = (f"Value of secret OPENAI_API_KEY={key}", "Continue?=y", "--")
    words = workspace.arguments("--name", "asked", yes=False)
    async with workspace.start(words=words, wrapped=(*person, *answers), OPENAI_API_KEY="") as running:
        ended = await running.end()
    assert ended.code == 0, ended.said
    assert "Run asked is finished." in ended.said
    assert key not in ended.said
    assert not [path for path in workspace.root.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]

"""The JSON Schemas in `docs/schemas/` are what the code says, and say no to what is damaged (issue 9).

Every golden file of a format is valid under the schema of that format, and no longer once anything that the schema speaks of is
taken out or replaced by something of another kind.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from osmosis.pure.evidence import Evidence, LogMark
from osmosis.pure.journal import JournalDecoder, encode_record
from osmosis.shell.evaluation.process_identity import ProcessRecord
from osmosis.shell.scaffold import write_rollout
from scripts.generate_schemas import SCHEMAS, documents
from scripts.schema_commands import COMMANDS as DESCRIBED
from scripts.schema_commands import Operation
from tests.golden.conftest import GOLDEN
from tests.property.test_config import BAD_VALUES, FULL, MINIMAL, edited
from tests.strategies.cli_tree import COMMANDS

RUN = "run/calm-otter-7"
SHAPES = {
    "files/manifest": [f"{RUN}/manifest.json"],
    "files/events": [f"{RUN}/events.jsonl"],
    "files/index": [f"{RUN}/index.jsonl", f"{RUN}/summary.jsonl"],
    "files/metrics": [f"{RUN}/metrics.json", "metrics/*.json", "analysis/metrics.json"],
    "files/progress": [f"{RUN}/progress.json"],
    "files/dataset_rows": [f"{RUN}/dataset_rows.jsonl", "data/dataset_rows.jsonl"],
    "files/source_files": [f"{RUN}/source_files.json", "data/source_files.json"],
    "files/server": ["schemas/server.json"],
    "files/trajectory": ["rollout/trajectory.json"],
    "files/sample": ["rollout/sample.json"],
    "files/cassette": ["cassette/*.jsonl"],
    "files/exported_sample": ["analysis/samples.jsonl"],
    "files/rubric_output": ["judge/output.json"],
    "files/rubric_journal": ["judge/journal.jsonl"],
    "protocol/start": ["rollout/start.json"],
    "protocol/started": ["rollout/started.json"],
    "protocol/result": [f"rollout/{name}.json" for name in ("pending", "success", "failure", "lease-expired")],
    "protocol/cancel": ["rollout/cancel.json"],
    "protocol/cancelled": ["rollout/cancelled.json"],
    "output/event": ["cli/events.jsonl"],
    "output/eval.info": ["cli/runs_info_*.json", "commands/eval_info.well.json.txt"],
    "output/eval.list": ["cli/runs_list*.json", "commands/eval_list.well.json.txt"],
    "output/log_event": ["cli/runs_logs_follow.json.txt"],
    "output/eval.logs": ["cli/runs_logs*.json", "commands/eval_logs.well.json.txt"],
}
"""Which golden files hold documents of which schema. Envelopes that name their operation, and errors, are found by that."""
OTHERS = {
    "run/dataset.jsonl": "a user's own dataset",
    "real/*": "outputs of real runs, with letters for what no two runs share",
    f"{RUN}/rollout_trials/*": "trajectories of other writers, whole and broken",
    f"{RUN}/trajectories/*": "copies of those",
    "rollout/exchanges.jsonl": "requests and answers of the public package, recorded",
    "rollout/diagnostics.json": "whatever a backend noted",
    "rollout/ownership.json": "OTLP in JSON, which OpenTelemetry defines",
    "rollout/preview.json": "OTLP in JSON, which OpenTelemetry defines",
    "judge/request_*.json": "requests to a provider, which the provider defines",
    "remote_rollout/*": "messages of the older remote rollout API, which its pydantic models define",
}
"""Golden JSON that is no format of ours, and whose it is."""


@cache
def schema(name: str) -> dict[str, Any]:
    """The committed schema."""
    read: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_bytes())
    return read


def validator(name: str) -> Draft202012Validator:
    """The committed schema, ready to judge."""
    return Draft202012Validator(schema(name))


def held(path: Path) -> list[Any]:
    """The JSON documents of a golden file: the whole, or its lines; of a command's output the lines that are JSON."""
    text = path.read_text()
    if path.suffix == ".json":
        return [json.loads(text)]
    return [json.loads(line) for line in text.split("\n") if line.startswith("{")]


def shape_of(name: str, document: Any) -> str:
    """The schema of a document of the golden file `name`."""
    for shape, patterns in SHAPES.items():
        if any(fnmatch(name, pattern) for pattern in patterns):
            return shape
    named = {"warning": "output/warning", "error": "output/error", "event": "output/event"}
    found = next((shape for key, shape in named.items() if key in document), None)
    return found or f"output/{document['operation']}"


def collected() -> dict[str, list[tuple[str, Any]]]:
    """Every document of every golden file, by its schema."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for path in sorted(GOLDEN.rglob("*")):
        name = path.relative_to(GOLDEN).as_posix()
        is_json = path.suffix in (".json", ".jsonl") or name.endswith(".json.txt")
        if is_json and not any(fnmatch(name, pattern) for pattern in OTHERS):
            for document in held(path):
                found.setdefault(shape_of(name, document), []).append((name, document))
    return found


DOCUMENTS = collected()
NAMES = sorted(name.removesuffix(".schema.json") for name, _ in documents())


def test_the_schemas_are_current() -> None:
    """What is committed is what the code says now; `just golden` writes it."""
    present = {path.relative_to(SCHEMAS).as_posix(): path.read_bytes() for path in SCHEMAS.rglob("*.json")}
    assert present == dict(documents())


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_schema(name: str) -> None:
    """Each is valid JSON Schema 2020-12, and speaks of something."""
    Draft202012Validator.check_schema(schema(name))
    assert schema(name)["title"]


FREE = {"Fault.details": "of an error, by its code", "LogEntry.details": "of a line of the log, by its event"}
"""The only objects of outputs whose keys depend on the case."""


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("output/")])
def test_outputs_name_the_keys_of_their_objects(name: str) -> None:
    """A field of a command's output is not just "an object": its schema says which keys that has, or what its values are."""
    bare = {
        f"{record}.{key}"
        for record, part in schema(name)["$defs"].items()
        for key, said in part.get("properties", {}).items()
        for choice in said.get("anyOf", [said])
        if choice.get("type") == "object" and "additionalProperties" not in choice
    }
    assert bare <= FREE.keys()


def test_every_command_has_one() -> None:
    """The table of outputs has every command of the tree and no other."""
    assert DESCRIBED.keys() == COMMANDS.keys()


def test_exit_codes_are_those_of_the_table() -> None:
    """Each command's golden output ended with the exit code that the table, and so the page, gives for its status."""
    seen = set()
    for path in sorted((GOLDEN / "commands").glob("*.json.txt")):
        first, *_ = path.read_text().split("\n")
        for document in held(path):
            if "operation" in document:
                described = DESCRIBED[document["operation"].replace(".", " ")]
                assert isinstance(described, Operation)
                assert first == f"exit code {int(described.endings[document['status']])}", path.name
                seen.add(document["operation"])
    assert len(seen) >= 18


def test_every_schema_has_a_golden_file() -> None:
    """No schema stands there untried. The config's has tests of its own below; a warning is the error's twin."""
    assert set(NAMES) - DOCUMENTS.keys() == {"files/eval_config", "output/warning"}
    assert DOCUMENTS.keys() - set(NAMES) == set()


def test_the_server_record(golden: Any) -> None:
    """`server.json` as it is written when the rollout server starts."""
    record = ProcessRecord(4711, 4711, "123456", "0" * 32, 41233, "2026-11-30T12:00:00.000000Z")
    golden("schemas/server.json", msgspec.json.encode(record))


def test_a_journal_line_may_say_what_files_were_like() -> None:
    """The digests that stand in a line behind the record's own keys are part of the format."""
    [line, *_] = (GOLDEN / RUN / "events.jsonl").read_bytes().split(b"\n")
    [record] = JournalDecoder("events.jsonl").feed(line + b"\n")
    said = json.loads(encode_record(record, 1, Evidence({"manifest.json": "0" * 16}, LogMark(7, "1" * 16))))
    assert validator("files/events").is_valid(said)
    assert not validator("files/events").is_valid(said | {"files": {"manifest.json": 1}})
    assert not validator("files/events").is_valid(said | {"log": {"size": 7}})


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_golden_files_are_valid(name: str) -> None:
    """What the product writes is what its schema says."""
    for file, document in DOCUMENTS[name]:
        errors = [f"{file}: {error.json_path}: {error.message}" for error in validator(name).iter_errors(document)]
        assert errors == []


def places(part: Any, root: Any, value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place of `value` that the schema speaks of, with what it says there, references followed."""
    if "$ref" in part:
        yield from places(root["$defs"][part["$ref"].rpartition("/")[2]], root, value, path)
        return
    if "anyOf" in part:
        fitting = [
            choice for choice in part["anyOf"] if Draft202012Validator({"$defs": root["$defs"], **choice}).is_valid(value)
        ]
        yield path, part
        yield from (found for found in places(fitting[0], root, value, path) if found[0] != path)
        return
    yield path, part
    if isinstance(value, dict):
        for key, inner in value.items():
            said = part.get("properties", {}).get(key, part.get("additionalProperties"))
            if isinstance(said, dict):
                yield from places(said, root, inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            first = part.get("prefixItems", [])
            said = first[number] if number < len(first) else part.get("items")
            if isinstance(said, dict):
                yield from places(said, root, inner, (*path, number))


KINDS: tuple[Any, ...] = ({"": []}, [[]], "\0", -0.5, None, True)
"""One value of each kind."""


def mutants(name: str, document: Any) -> Iterator[tuple[str, Any]]:
    """`document` with one place spoilt: a value of a kind that is not allowed there, or a key gone that must be there."""
    root = schema(name)
    for path, part in places(root, root, document):
        judge = Draft202012Validator({**part, "$defs": root["$defs"]})
        wrong = next((bad for bad in KINDS if not judge.is_valid(bad)), None)
        if wrong is not None and path:
            yield f"{path} = {wrong!r}", replaced(document, path, wrong)
        for key in part.get("required", ()):
            yield f"{path} without {key}", replaced(document, (*path, key), ...)


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of `document` with `value` at `path`; an ellipsis takes the key away."""
    changed = copy.deepcopy(document)
    place = changed
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_spoilt_document_is_not_valid(name: str) -> None:
    """Each place that the schema speaks of is really looked at."""
    tried = 0
    for file, document in DOCUMENTS[name][:12]:
        for what, spoilt in mutants(name, document):
            assert not validator(name).is_valid(spoilt), f"{file}: {what} was accepted"
            tried += 1
    assert tried >= 4


# The config ---------------------------------------------------------------------------------------------------------------

UNSAID = {
    ("secrets", "required", '["A\\n"]'): "Python's `$` also matches before a last newline; JSON Schema's does not",
    ("evaluation", "limit", "1.0"): "JSON has one kind of number",
    ("evaluation", "n", "1.0"): "JSON has one kind of number",
    ("evaluation", "batch_size", "1.0"): "JSON has one kind of number",
    ("experiment", "entrypoint", '"../main.py"'): "a path that leaves its directory",
    ("experiment", "entrypoint", '"a/../../b.py"'): "a path that leaves its directory",
    **{("evaluation", "pass_threshold", value): "JSON has no such number" for value in ("inf", "-inf", "nan")},
    **{("evaluation", key, "nan"): "JSON has no such number" for key in ("agent_workflow_timeout_s", "grader_timeout_s")},
    ("evaluation", "pass_threshold", "1" + "0" * 400): "only integers have bounds there",
    ("advanced", "x", "[{a = nan}]"): "JSON has no such number",
}
"""What the reader refuses and the schema cannot, and why."""


@pytest.mark.parametrize("value", BAD_VALUES, ids=str)
def test_the_config_schema_refuses_what_the_reader_refuses(value: tuple[str, str, str]) -> None:
    """Editor and command agree on bad values, but for a written list of what JSON Schema cannot say."""
    config = tomllib.loads(edited(*value))
    assert validator("files/eval_config").is_valid(config) == (value in UNSAID)


def test_the_config_schema_accepts_configs(tmp_path: Path) -> None:
    """The example's, a new rollout's, and those of the reader's tests."""
    (tmp_path / "configs" / "eval").mkdir(parents=True)
    (tmp_path / "rollouts").mkdir()
    write_rollout(tmp_path, "fresh", force=False, force_hint="")
    example = GOLDEN.parents[1] / "examples" / "workspace" / "configs" / "eval" / "word-problems.toml"
    texts = [FULL, MINIMAL, example.read_text(), (tmp_path / "configs" / "eval" / "fresh.toml").read_text()]
    for text in texts:
        assert [error.message for error in validator("files/eval_config").iter_errors(tomllib.loads(text))] == []


@pytest.mark.parametrize("spoilt", ["[secrets]\nrequired = []\n", MINIMAL + "[evaluations]\nn = 1\n", "x = 1\n" + MINIMAL])
def test_the_config_schema_knows_the_sections(spoilt: str) -> None:
    """A section that is missing, misspelt, or no section."""
    assert not validator("files/eval_config").is_valid(tomllib.loads(spoilt))

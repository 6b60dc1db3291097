"""The example workspace keeps its promises: the data, the config, the pins, the cassette, and the agent's loop."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import tomllib
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Self

import pytest

from osmosis.pure.cassette import decode_cassette, encode_cassette
from osmosis.pure.config import decode_config
from osmosis.shell.evaluation.dataset_file import read_dataset
from osmosis_ai.rollout import ExecutionRequest, RolloutContext, RolloutStatus
from scripts.make_demo_dataset import rows as generated_rows

ROOT = Path(__file__).parents[2]
WORKSPACE = ROOT / "examples" / "workspace"
ROLLOUT = WORKSPACE / "rollouts" / "word-problems"
MODULES = ("main", "solver", "grading", "calculator", "model", "prompts")
CONFIG = decode_config((WORKSPACE / "configs/eval/word-problems.toml").read_bytes(), "word-problems.toml")

SOLUTIONS: dict[str, Callable[..., float]] = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "quotient": lambda a, b: a / b,
    "comparison": lambda a, b: a + b,
    "product-then-sum": lambda a, b, c: a * b + c,
    "sum-then-difference": lambda a, b, c: a + b - c,
    "sum-of-three": lambda a, b, c: a + b + c,
}


def dataset(suffix: str):
    """The rows of one of the three files, read as a run reads them."""
    return tuple(read_dataset(WORKSPACE / "data" / f"word-problems.{suffix}", rows=None, limit=None).rows)


def test_the_three_files_hold_the_same_rows():
    """JSONL, CSV and Parquet give the product the same rows, at least 60, none twice."""
    rows = dataset("jsonl")
    assert rows == dataset("csv") == dataset("parquet")
    assert len({row.user_prompt for row in rows}) == len(rows) >= 60


def test_the_recipe_shows_the_run_and_not_itself():
    """`just demo` writes what the command writes: here its help, and not a word of the recipe."""
    just = Path(sys.executable).with_name("just")
    told = subprocess.run([just, "demo", "--help"], capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("Usage: osmosis eval run")


def test_the_dataset_is_what_its_script_writes():
    """The committed rows and the committed script belong together."""
    written = [(row["user_prompt"], row["ground_truth"], json.loads(row["metadata"])) for row in generated_rows()]
    assert [(row.user_prompt, row.label, row.metadata) for row in dataset("jsonl")] == written


@pytest.mark.parametrize("row", dataset("jsonl"), ids=lambda row: f"row-{row.source_row_index}")
def test_every_label_is_right(row):
    """The label is what the numbers in the text come to, worked out from the text alone."""
    numbers = [int(found) for found in re.findall(r"[0-9]+", row.user_prompt)]
    answer = SOLUTIONS[row.metadata["kind"]](*numbers)
    assert answer == int(row.label)
    assert answer > 0


def test_the_config_names_what_is_there():
    """The eval config's rollout and entrypoint exist, and each row runs four times."""
    assert (WORKSPACE / "rollouts" / CONFIG.experiment.rollout / CONFIG.experiment.entrypoint).is_file()
    assert CONFIG.evaluation.n == 4
    assert CONFIG.secret_names == ()


def test_the_rollout_is_pinned_to_what_the_checkout_is_tested_with():
    """The rollout's environment takes the SDK from this checkout, and every other package in the checkout's version."""
    project = tomllib.loads((ROLLOUT / "pyproject.toml").read_text())
    source = project["tool"]["uv"]["sources"]["osmosis-ai"]["path"]
    assert (ROLLOUT / source).resolve() == ROOT
    pins = set(project["tool"]["uv"]["constraint-dependencies"])
    tested = set(re.findall(r"^[a-z0-9][a-z0-9._-]*==[^ ;\\\n]+", (ROOT / "requirements/dev.txt").read_text(), re.MULTILINE))
    assert pins <= tested


def test_the_cassette_answers_every_rollout_with_a_tool_between():
    """Each of the rows' four runs made two calls or more; the file is small, in its normal form, and says where it is from."""
    data = (WORKSPACE / "cassettes/word-problems.jsonl").read_bytes()
    cassette = decode_cassette(data, "word-problems.jsonl").cassette
    calls = Counter((key.row, key.run) for key in cassette.calls)
    wanted = {(row.source_row_index, run) for row in dataset("jsonl") for run in range(CONFIG.evaluation.n)}
    assert calls.keys() == wanted
    assert min(calls.values()) >= 2
    assert len(data) < 2_000_000
    assert encode_cassette(cassette) == data
    assert "SmolLM2-135M-Instruct" in cassette.header.recorded_from


class ScriptedModel:
    """A chat endpoint on loopback that gives the scripted replies in turn and keeps every request body."""

    def __init__(self, replies: list[str]) -> None:
        self.requests: list[dict] = []
        script = iter(replies)
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                content = next(script, None)
                if content is None:
                    self.answer(404, {"error": {"message": "nothing is recorded for this request"}})
                else:
                    self.answer(200, {"choices": [{"message": {"role": "assistant", "content": content}}]})

            def answer(self, status: int, payload: dict) -> None:
                data = json.dumps(payload).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
async def entrypoint(monkeypatch, tmp_path):
    """The rollout's `main` module, imported as its server imports it; its artifacts go below `tmp_path`."""
    monkeypatch.setenv("_OSMOSIS_ROLLOUT_ARTIFACT_ROOT", str(tmp_path))
    monkeypatch.syspath_prepend(str(ROLLOUT))
    for module in MODULES:
        monkeypatch.delitem(sys.modules, module, raising=False)
    yield import_module("main")
    await import_module("model").CLIENT.aclose()
    for module in MODULES:
        sys.modules.pop(module, None)


async def execute(entrypoint, replies, label="48"):
    """Run one rollout against the scripted replies: its outcome and the requests that the model got."""
    prompt = [{"role": "user", "content": "Tom has 31 nuts and finds 17 more. How many nuts does Tom have?"}]
    request = ExecutionRequest(id="rollout-1", prompt=prompt, label=label, metadata=None)
    with ScriptedModel(replies) as model, RolloutContext(chat_completions_url=model.url, api_key="k", rollout_id="rollout-1"):
        outcome = await entrypoint.backend.execute(request)
    return outcome.result, model.requests


async def test_the_loop_runs_the_tool_between_two_calls(entrypoint, tmp_path):
    """Calculation, calculator, answer: the second request holds the tool's result, and a right answer is worth 1."""
    result, requests = await execute(entrypoint, ['{"expression": "31 + 17"}', '{"answer": 48}'])
    assert result.status is RolloutStatus.SUCCESS
    assert result.sample.reward == 1.0
    assert result.sample.metrics == {
        "model_calls": 2.0,
        "calculator_errors": 0.0,
        "calculation_correct": 1.0,
        "answer_follows_calculator": 1.0,
    }
    assert requests[1]["messages"][-1] == {"role": "user", "content": "calculator: 48"}
    assert [message["role"] for message in result.sample.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert "**verdict**: right" in (tmp_path / "rollout-1/artifacts/worksheet.md").read_text()


async def test_a_calculation_without_sense_goes_back_with_the_reason(entrypoint):
    """The model reads why its calculation failed and may write another."""
    result, requests = await execute(entrypoint, ["thirty", '{"expression": "31 - 17"}', '{"answer": 14}'])
    assert "error: only numbers" in requests[1]["messages"][-1]["content"]
    assert result.sample.reward == 0.0
    assert result.sample.metrics["model_calls"] == 3.0
    assert result.sample.metrics["calculator_errors"] == 1.0


async def test_a_rollout_without_an_answer_is_worth_nothing(entrypoint):
    """Three senseless calculations end the loop: a graded sample with reward 0, not a failure."""
    result, requests = await execute(entrypoint, ["?", "?", "?", '{"answer": 48}'])
    assert result.status is RolloutStatus.SUCCESS
    assert result.sample.reward == 0.0
    assert len(requests) == 3


async def test_the_endpoint_s_reason_reaches_the_result(entrypoint):
    """A refused model call, such as one that the cassette does not hold, fails the rollout in the endpoint's words."""
    result, _ = await execute(entrypoint, ['{"expression": "31 + 17"}'])
    assert result.status is RolloutStatus.FAILURE
    assert "status 404: nothing is recorded for this request" in result.err_message


async def test_equal_conversations_send_equal_requests(entrypoint):
    """Nothing of time or identity is in a request, so a recorded call is found again on replay."""
    replies = ['{"expression": "31 + 17"}', '{"answer": 48}']
    assert (await execute(entrypoint, replies))[1] == (await execute(entrypoint, replies))[1]


def test_sixteen_rollouts_may_run_at_once(entrypoint):
    """The backend's own limit does not stand in the way of 16 in flight (ruling 35)."""
    assert entrypoint.backend.health()["concurrency"]["max_concurrent"] >= 16

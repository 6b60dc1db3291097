"""Check what the documents promise: links lead somewhere, decisions are indexed, CI runs the README's commands.

python scripts/check_documents.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DECISIONS = ROOT / "docs" / "decisions"
SECTIONS = ("Context", "Options", "Choice", "Consequences")

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^python3 scripts/bootstrap\.py \S+$", re.MULTILINE)


def markdown_files() -> list[Path]:
    """The documents of the project, and none of the packages installed below it."""
    folders = (ROOT / "docs", ROOT / "examples", ROOT / "tests", ROOT / "benchmarks")
    nested = [path for folder in folders for path in folder.rglob("*.md") if not _is_hidden(path)]
    return sorted([*ROOT.glob("*.md"), *nested])


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") or part == "node_modules" for part in path.relative_to(ROOT).parts)


def broken_links(path: Path) -> Iterator[str]:
    """Relative links of one document that lead nowhere."""
    prose = _FENCE.sub("", path.read_text())
    for target in _LINK.findall(prose):
        file = target.partition("#")[0]
        if file and "://" not in file and not file.startswith("mailto:") and not (path.parent / file).exists():
            yield f"{path.relative_to(ROOT)}: {target} leads nowhere"


def decision_problems() -> Iterator[str]:
    """Pages without their sections, with a number taken twice, or missing from the index."""
    index = (DECISIONS / "README.md").read_text()
    numbers: dict[str, str] = {}
    for path in sorted(DECISIONS.glob("*.md")):
        if path.name == "README.md":
            continue
        where = path.relative_to(ROOT)
        number, _, title = path.stem.partition("-")
        if not (number.isdigit() and len(number) == len("0001") and title):
            yield f"{where}: a page is called NNNN-title.md"
        if numbers.setdefault(number, path.name) != path.name:
            yield f"{where}: number {number} belongs to {numbers[number]}"
        if f"]({path.name})" not in index:
            yield f"{where}: not in docs/decisions/README.md"
        headings = re.findall(r"^## (.+)$", path.read_text(), re.MULTILINE)
        if [heading for heading in headings if heading in SECTIONS] != list(SECTIONS):
            yield f"{where}: needs the sections {', '.join(SECTIONS)}, in that order"


def promise_problems() -> Iterator[str]:
    """The commands in the README's code blocks against those that `.ci/run` runs."""
    blocks = "\n".join(_FENCE.findall((ROOT / "README.md").read_text()))
    promised = _COMMAND.findall(blocks)
    run = re.findall(r"^step (python3 scripts/bootstrap\.py \S+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    if promised != run:
        yield f"README.md promises {promised}, .ci/run runs {run}"


def main() -> int:
    """Report every problem; the exit code."""
    problems = [problem for path in markdown_files() for problem in broken_links(path)]
    problems += [*decision_problems(), *promise_problems()]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(markdown_files())} documents: links, decisions and promises hold.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

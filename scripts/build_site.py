"""Build the documentation site: `docs/`, the reference from the code, contributing, and the changelog with what comes next.

    python -m scripts.build_site [DIRECTORY]        (site/ unless said otherwise)

`just site` makes the generator's environment first (`docs_env.py`). The pages are put together in a temporary directory, where
links that lead out of `docs/` are led to the page's place on the site; Sphinx then draws them, and every warning (a dead link,
a missing anchor, a page that no menu leads to) is an error. Decision 0072 says why it is Sphinx.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

from osmosis import __version__
from scripts import python_reference
from scripts.docs_env import DOCS as ENVIRONMENT

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
MOVED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}
"""Pages of the checkout that have another place on the site."""

_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_ENTRY = re.compile(r"^- \[[^\]]*\]\(([^)\s]+)\.md\)", re.MULTILINE)


def stage(source: Path) -> None:
    """Put everything that Sphinx reads into `source`."""
    shutil.copytree(DOCS, source)
    for path in source.rglob("*.md"):
        place = path.relative_to(source).as_posix()
        path.write_text(led(path.read_text(), f"docs/{place}", place))
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        (source / MOVED[name]).write_text(led((ROOT / name).read_text(), name, MOVED[name]))
    with (source / "changelog.md").open("a") as file:
        file.write(_next_release())
    for place, text in python_reference.pages():
        (source / place).parent.mkdir(exist_ok=True)
        (source / place).write_text(text)
    with (source / "python.md").open("a") as file:
        file.write("\n" + python_reference.index())
    for page in ("index.md", "python.md"):
        (source / page).write_text(with_menus((source / page).read_text()))
    with (source / "decisions" / "README.md").open("a") as file:
        file.write("\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n")


def led(text: str, original: str, place: str) -> str:
    """A page of the checkout (`original`) with links as they must be at its `place` on the site.

    A link to a file that is on no page of the site, such as an example, becomes its text.
    """
    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(_Leading(original, place), part) for part in parts)


class _Leading:
    """Where a link of one page leads on the site."""

    def __init__(self, original: str, place: str) -> None:
        self.original, self.place = PurePosixPath(original), PurePosixPath(place)

    def __call__(self, match: re.Match[str]) -> str:
        """The link, changed if need be."""
        file, mark, anchor = match[2].partition("#")
        if not file or "://" in file or file.startswith("mailto:"):
            return match[0]
        target = os.path.normpath(self.original.parent / file)
        within = MOVED.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        if within is None:
            return match[1] if (ROOT / target).exists() else match[0]
        return f"[{match[1]}]({os.path.relpath(within, self.place.parent)}{mark}{anchor})"


def with_menus(text: str) -> str:
    """A page of headings and lists of links, with a hidden menu for each: its order is the order of the site."""
    menus = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        caption, _, body = section.partition("\n")
        pages = _ENTRY.findall(body)
        menus.append("\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""]))
    return "\n".join([text, *menus])


def _next_release() -> str:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", __version__]
    return "\n" + subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def draw(source: Path, target: Path) -> int:
    """Have Sphinx draw `source` into `target`, which is made anew; its exit code."""
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as doctrees:
        command = [str(ENVIRONMENT.python), "-m", "sphinx", "--quiet", "--fail-on-warning", "--builder", "html"]
        command += ["--doctree-dir", doctrees, str(source), str(target)]
        return subprocess.run(command, check=False).returncode


def main(arguments: list[str]) -> int:
    """Command line: see the module docstring."""
    target = Path(arguments[0]) if arguments else ROOT / "site"
    if not ENVIRONMENT.python.exists():
        print("build_site: run `python scripts/docs_env.py` first, or `just site`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        stage(source)
        code = draw(source, target)
    print(f"build_site: {'wrote ' if code == 0 else 'failed; see above. Partly written: '}{target}/index.html")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

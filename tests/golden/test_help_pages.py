"""The help that is shown before the command framework is imported is the help of the tree of commands, page by page."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from osmosis.shell.cli import help_page
from osmosis.shell.cli.app import build_app
from osmosis.shell.cli.help_capture import encode_pages, page_of
from osmosis.shell.cli.help_page import PAGES_FILE, page_asked_for, page_text, write_page
from osmosis.shell.cli.main import main
from osmosis.shell.cli.stream import SteadyStream
from tests.strategies.cli_tree import GROUPS, TREE

Golden = Callable[[str, bytes], None]
FROM_HERE = Path("..", "..", "osmosis", "shell", "cli", Path(PAGES_FILE).name)


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_the_pages_are_those_of_the_tree(golden: Golden) -> None:
    """`just golden` writes them anew after a change of the tree."""
    golden(str(FROM_HERE), encode_pages(page_of(build_app(), path) for path in TREE))


@pytest.mark.parametrize("path", TREE, ids=" ".join)
@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_a_page_is_found_by_its_path(path: tuple[str, ...], words: list[str]) -> None:
    """A help flag behind a path, or a group alone at the top, finds its page; a command alone is to be run."""
    page = page_asked_for([*path, *words])
    if words or (path in GROUPS and len(path) < 2):
        assert page is not None
        assert page["path"] == " ".join(path)
    else:
        assert page is None


@pytest.mark.parametrize(
    "words",
    [["eval run", "--help"], ["eval", "rum", "--help"], ["doctor", "--fix", "-h"], ["--help", "eval"], ["eval", "list"]],
)
def test_other_lines_are_left_to_the_tree(words: list[str]) -> None:
    """Whatever is not a path and a flag needs to be parsed."""
    assert page_asked_for(words) is None


@pytest.mark.parametrize("mode", [[], ["--plain"], ["--json"]])
@pytest.mark.parametrize(
    "words", [["eval", "run", "c.toml", "--help"], ["eval", "--help", "run"], ["eval", "run", "-h", "--name"]]
)
def test_help_in_the_middle_of_a_line_looks_the_same(
    words: list[str], mode: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """However help is asked for, it is the same text, whether it lay ready or not."""
    assert main([*words, *mode]) == 0
    asked = capsys.readouterr().out
    path = [word for word in words if word in ("eval", "run")]
    assert main([*path, "--help", *mode]) == 0
    assert capsys.readouterr().out == asked


@pytest.mark.parametrize("damage", [b"", b"{", None])
def test_without_the_file_the_tree_answers(
    damage: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An incomplete installation still has help."""
    main(["eval", "gate", "--help"])
    whole = capsys.readouterr().out
    monkeypatch.setattr(help_page, "PAGES_FILE", str(tmp_path / "pages.json"))
    if damage is not None:
        (tmp_path / "pages.json").write_bytes(damage)
    assert main(["eval", "gate", "--help"]) == 0
    assert capsys.readouterr().out == whole


@pytest.mark.parametrize(("width", "plain"), [(80, False), (40, False), (80, True)])
@pytest.mark.parametrize("path", ["", "eval", "eval run", "rollout serve-loop"])
def test_layouts(path: str, width: int, plain: bool, golden: Golden) -> None:
    """Two columns, or one where two do not fit and in plain output."""
    page = page_of(build_app(), path.split())
    name = path.replace(" ", "_") or "osmosis"
    golden(f"help/{name}.{'plain' if plain else 'rich'}-{width}.txt", page_text(page, width, plain=plain).encode())


@pytest.mark.parametrize(
    ("terminal", "environment", "plain", "coloured"),
    [
        (True, {"TERM": "xterm"}, False, True),
        (True, {"TERM": "xterm"}, True, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        (True, {"TERM": "dumb"}, False, False),
        (False, {"TERM": "xterm"}, False, False),
    ],
)
def test_colours_where_they_may_be(terminal: bool, environment: dict[str, str], plain: bool, coloured: bool) -> None:
    """On a terminal that has them and is allowed to; the words are the same."""
    page = page_asked_for(["eval", "run", "--help"])
    assert page is not None
    stream = Screen() if terminal else io.StringIO()
    write_page(page, SteadyStream(stream), plain=plain, environment=environment)
    text = stream.getvalue()
    assert ("\x1b" in text) == coloured
    assert text.replace("\x1b[1m", "").replace("\x1b[36m", "").replace("\x1b[0m", "") == page_text(page, 80, plain=plain)

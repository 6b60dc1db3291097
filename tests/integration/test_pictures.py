"""The pictures of the documents show what really stood on a terminal (issue 9: pictures made from the demo)."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path

import pyte
import pytest

from scripts import make_pictures
from scripts.terminal_picture import drawn, film

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
COLOURS = r"""
print("\x1b[31mred\x1b[0m \x1b[1;38;2;1;2;3mown\x1b[0m plain <&>")
print("first line gone", end="\r")
print("\x1b[2Klast words")
"""


def words(svg: str) -> str:
    """The text of a picture, as it is read."""
    return html.unescape("\n".join(re.findall("<text[^>]*>(.*?)</text>", svg))).replace("\N{NO-BREAK SPACE}", " ")


def fetched(svg: str) -> list[str]:
    """Whatever a browser would ask a network for."""
    return re.findall(r"@import|@font-face|(?:href|src)=[\"']?http|url\([\"']?http", svg)


def test_a_screen_is_drawn_as_it_stands(tmp_path: Path) -> None:
    """Text, colours and what a child overwrote appear as on its terminal; nothing is fetched from anywhere."""
    screen = film([sys.executable, "-c", COLOURS], lambda screen: "last words" in "".join(screen.display), directory=tmp_path)
    svg = drawn(screen, "a title", "name")
    shown = words(svg)
    assert "red" in shown
    assert "plain <&>" in shown
    assert "last words" in shown
    assert "first line gone" not in shown
    assert "a title" in shown
    assert "#010203" in svg
    assert fetched(svg) == []


def test_a_screen_that_was_wiped_away_at_once_is_seen(tmp_path: Path) -> None:
    """All screens of a quick command are looked at, also those that one read brings together."""
    code = r"print('half way', end='\r\x1b[2Kall of it\r\x1b[2Kthe end')"
    screen = film([sys.executable, "-c", code], lambda screen: "half way" in screen.display[0], directory=tmp_path)
    assert screen.display[0].rstrip() == "half way"


@pytest.mark.parametrize(("code", "words"), [("print('so it ends')", "so it ends"), ("raise SystemExit(3)", "exit code 3")])
def test_a_moment_that_never_came_is_an_error(tmp_path: Path, code: str, words: str) -> None:
    """No picture is made of a command that failed or ended early; the error shows what stood there."""
    with pytest.raises(RuntimeError, match=words):
        film([sys.executable, "-c", code], lambda screen: False, directory=tmp_path)


@pytest.mark.parametrize(("done", "reached"), [(100, False), (141, True), (256, True)])
def test_the_moment_is_past_the_middle(done: int, reached: bool) -> None:
    """The live view is photographed when its bar has come past the middle, and not before its last line is there."""
    screen = pyte.Screen(80, 4)
    stream = pyte.Stream(screen)
    stream.feed(f"  rollouts ------ {done}/256 55% 0:00:04\r\n")
    assert not make_pictures.half_way(screen)
    stream.feed("  16 in flight")
    assert make_pictures.half_way(screen) == reached


def test_the_committed_picture_is_of_the_demo() -> None:
    """It shows the plan and the live view of the demo, no path of the machine that made it, and fetches nothing."""
    svg = (PICTURES / "live-view.svg").read_text()
    shown = words(svg)
    for text in ("word-problems.jsonl", "64 of 64", "/256", "in flight"):
        assert text in shown
    assert re.search(r"pass \d+% \[\d+%, \d+%\]", shown)
    assert re.search(r"(?<![\w.])/\w+/", shown) is None
    assert fetched(svg) == []


@pytest.mark.slow
@pytest.mark.browser
def test_the_recipe_makes_both(tmp_path: Path) -> None:
    """A run of the demo gives the live view and the report, and is removed again."""
    assert make_pictures.main([str(tmp_path)]) == 0
    assert "in flight" in words((tmp_path / "live-view.svg").read_text())
    assert (tmp_path / "report.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert not make_pictures.RUN.exists()

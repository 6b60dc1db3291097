"""Every command on every kind of terminal: narrow, dumb, without colour; help, results and errors (issue 9)."""

from __future__ import annotations

import io
import re

import pytest

from osmosis.pure.errors import OsmosisError
from osmosis.pure.presentation import shell_line
from osmosis.pure.redaction import Redactor
from osmosis.shell.cli.main import main
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import CommandResult, Commands, ListResult, Quote, Section, StreamResult
from osmosis.shell.cli.rich_text import RichText
from tests.golden.test_cli import SECRET
from tests.golden.test_cli_commands import BADLY, WELL
from tests.strategies.cli_tree import TREE

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7])(?:;[0-9;]*)?m")
SHOWN = {**{f"{name} well": result for name, result in WELL.items()}, **{f"{name} badly": bad for name, bad in BADLY.items()}}


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


class AsciiScreen(io.TextIOWrapper):
    """A terminal whose locale has nothing but ASCII."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="ascii", write_through=True)

    def isatty(self) -> bool:
        """Yes."""
        return True

    def getvalue(self) -> str:
        """What was written."""
        return self.bytes.getvalue().decode("ascii")


def on_screen(case: str, width: int, screen: io.StringIO | AsciiScreen | None = None) -> str:
    """What a terminal of that width gets of a result or an error, escape sequences included."""
    screen = screen or Screen()
    output = Output(Mode.RICH, screen, screen, Redactor([SECRET]))
    output.rich_out = RichText(output.stdout, width=width)
    output.rich_err = RichText(output.stderr, width=width)
    shown = SHOWN[case]
    if isinstance(shown, OsmosisError):
        output.failure(case.rpartition(" ")[0], shown)
    else:
        output.result(shown)
    return screen.getvalue()


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A capable terminal, unless a test says otherwise."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def kept_whole(shown: CommandResult | OsmosisError) -> str:
    """What is not wrapped, so that it can be copied whole: commands, hints, other programs' words."""
    if isinstance(shown, OsmosisError):
        return shown.hint or ""
    texts = [shell_line(step.argv) for step in shown.next_steps]
    for block in () if isinstance(shown, ListResult | StreamResult) else shown.blocks:
        if isinstance(block, Quote):
            texts.append(block.text)
        elif isinstance(block, Commands):
            texts.extend(block.lines)
    return "\n".join(texts)


def below_rows(shown: CommandResult | OsmosisError) -> list[str]:
    """The messages that stand below the lines of a section."""
    blocks = () if isinstance(shown, OsmosisError | ListResult | StreamResult) else shown.blocks
    return [message for block in blocks if isinstance(block, Section) for message in block.quotes]


@pytest.mark.parametrize("case", SHOWN)
def test_results_fit_forty_columns(case: str) -> None:
    """No line is wider, except those that must be copied whole and words that are too long alone; and nothing is cut off but
    the message below a failed row, which `eval info` shows whole."""
    whole, messages = kept_whole(SHOWN[case]), below_rows(SHOWN[case])
    for line in ESCAPE.sub("", on_screen(case, 40)).splitlines():
        words = line.removeprefix("Hint:").strip()
        assert len(line) <= 40 or words[:20] in whole or " " not in words, line
        beginning, cut, _ = line.strip().partition("\N{HORIZONTAL ELLIPSIS}")
        assert not cut or any(message.startswith(beginning) for message in messages)


@pytest.mark.parametrize("case", SHOWN)
def test_ascii_results_fit_forty_columns(case: str) -> None:
    """Where a locale can spell neither our symbols nor other people's, lines are laid out with what stands in for them."""
    whole = kept_whole(SHOWN[case]).translate({0x2026: "~"}).encode("ascii", "backslashreplace").decode()
    for line in ESCAPE.sub("", on_screen(case, 40, AsciiScreen())).splitlines():
        words = line.removeprefix("Hint:").strip()
        assert len(line) <= 40 or words[:20] in whole or " " not in words, line


def test_a_message_that_is_cut_in_ascii_fills_its_line() -> None:
    """`~`, one column wide, stands for what was cut, and foreign letters count as what they are shown as."""
    screen = AsciiScreen()
    rich = RichText(Output(Mode.RICH, screen, screen, Redactor([])).stdout, width=30)
    rich.block(Section("Failed", ("row 1", "row 2"), ("x" * 40, "\N{LATIN SMALL LETTER E WITH ACUTE}" * 40)))
    shown = [line for line in ESCAPE.sub("", screen.getvalue()).splitlines() if "~" in line]
    assert shown == ["  " + "x" * 27 + "~", "  " + ("\\xe9" * 7)[:27] + "~"]


@pytest.mark.parametrize("width", range(20, 60))
def test_an_arrow_in_ascii_is_part_of_the_line(width: int) -> None:
    """A step of the work that fills its line with two characters for the arrow breaks between words, not in one."""
    screen = AsciiScreen()
    output = Output(Mode.RICH, screen, screen, Redactor([]))
    output.rich_err = RichText(output.stderr, width=width)
    output.milestone("ab cd " * 12)
    lines = ESCAPE.sub("", screen.getvalue()).splitlines()
    assert lines[0].startswith("-> ab")
    assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize("case", SHOWN)
def test_nothing_is_said_by_colour_alone(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its colours the text is the same; with NO_COLOR there are none, on a dumb terminal no escape sequence at all."""
    coloured, plain_80 = on_screen(case, 400), ESCAPE.sub("", on_screen(case, 80))
    monkeypatch.setenv("NO_COLOR", "1")
    colourless = on_screen(case, 400)
    assert not COLOUR.search(colourless)
    assert ESCAPE.sub("", coloured) == ESCAPE.sub("", colourless) == on_screen(case, 400, io.StringIO())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert on_screen(case, 80) == plain_80


@pytest.mark.parametrize("columns", ["0", "", "many", "-3"])
def test_columns_that_say_nothing(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments that know no width say 0, or nonsense: the output is that of a terminal of 80 columns."""

    def shown() -> str:
        stream = io.StringIO()
        Output(Mode.RICH, stream, stream, Redactor([SECRET])).result(WELL["eval list"])
        return stream.getvalue()

    usual = shown()
    monkeypatch.setenv("COLUMNS", columns)
    assert shown() == usual != ""


def test_colours_are_used() -> None:
    """The test above could fail."""
    assert COLOUR.search(on_screen("eval logs well", 80) + on_screen("doctor badly", 80))


@pytest.mark.parametrize("mode", [[], ["--plain"]])
@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_help_fits_and_breaks_no_option(
    path: tuple[str, ...], width: int, mode: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the width: only a word that is too long alone stands out, and every option can be copied in one piece."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([*path, "--help", *mode]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line.rstrip()) <= width or " " not in line.strip() for line in lines), lines
    app = TREE[path]
    if app.default_command is None:
        return
    found = app.assemble_argument_collection(default_parameter=TREE[()].default_parameter, parse_docstring=False)
    options = {name for argument in found if argument.parse for name in argument.names if name.startswith("--")}
    assert options <= set(re.findall(r"--[a-z-]+", "\n".join(lines)))

"""Spelling of values for people, and text that cannot steer a terminal."""

import re
import subprocess
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from osmosis.pure.presentation import (
    UNDEFINED,
    clipped,
    clock,
    counted,
    decimal,
    duration,
    first_line,
    joined,
    neutralise,
    one_line,
    percent,
    relative_path,
    shell_line,
    shell_word,
    thousands,
)

anything = st.text(st.characters(categories=["L", "N", "P", "S", "Z", "C"]))
steering = {"Cc", "Cs"}


def steers(character: str) -> bool:
    """Whether a terminal may act on `character`, by its Unicode properties rather than by our table."""
    bidirectional = unicodedata.bidirectional(character)
    return unicodedata.category(character) in steering or bidirectional in {
        *("LRE", "RLE", "LRO", "RLO", "PDF"),
        *("LRI", "RLI", "FSI", "PDI"),
    }


@given(anything)
@example("\x1b]0;title\x07 \x9b31m \u202e \ud800 \u2028 \x7f")
def test_neutralised_text_cannot_steer_a_terminal(text: str) -> None:
    """After `neutralise`, only tab and newline are left of all characters that a terminal acts upon."""
    assert not [c for c in neutralise(text) if steers(c) and c not in "\t\n"]
    assert not [c for c in one_line(text) if steers(c)]


@given(anything)
def test_neutralising_twice_changes_nothing(text: str) -> None:
    """Text may pass several layers, each of which neutralises."""
    assert neutralise(neutralise(text)) == neutralise(text)
    assert one_line(one_line(text)) == one_line(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_harmless_text_is_left_alone(text: str) -> None:
    """Letters, numbers, punctuation and symbols of every script come back unchanged."""
    assert neutralise(text) == text == one_line(text)


@given(anything)
def test_what_was_neutralised_can_be_told(text: str) -> None:
    """Nothing disappears: each steering character leaves an escape that names its code point."""
    expected = [
        f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}"
        for c in text.replace("\r\n", "\n")
        if steers(c) and c not in "\t\n"
    ]
    found = neutralise(text)
    for escape in expected:
        assert escape in found


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0.0s"),
        (49, "0.0s"),
        (50, "0.1s"),
        (12_345, "12.3s"),
        (59_949, "59.9s"),
        (59_950, "1m 0s"),
        (125_300, "2m 5s"),
        (3_599_499, "59m 59s"),
        (3_599_500, "1h 0m"),
        (86_399_499, "23h 59m"),
        (86_400_000, "1d 0h"),
        (-1, UNDEFINED),
        (float("nan"), UNDEFINED),
        (float("inf"), UNDEFINED),
    ],
)
def test_durations_at_the_edges(milliseconds: float, text: str) -> None:
    """A unit never reaches the next: no `60.0s`, no `59m 60s`, no `24h`."""
    assert duration(milliseconds) == text


def in_seconds(text: str) -> float:
    """The time that a duration says."""
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)([dhms])", text))


@given(st.floats(0, 1e12))
def test_a_duration_is_its_time_to_the_precision_shown(milliseconds: float) -> None:
    """Off by at most half a tenth below a minute, half a second below an hour, a minute below a day, an hour above."""
    said, meant = in_seconds(duration(milliseconds)), milliseconds / 1000
    precision = 0.051 if meant < 59.9 else 0.501 if meant < 3599 else 60.5 if meant < 86399 else 3600.5
    assert abs(said - meant) <= precision


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 3))
def test_rates_are_honest_at_the_ends(first: int, second: int, decimals: int) -> None:
    """100 % means all, 0 % means none, and everything else is within half a unit, or one unit where it was kept off an end."""
    part, whole = sorted((first, second))
    text = percent(part, whole, decimals=decimals)
    if whole == 0:
        assert text == UNDEFINED
        return
    value = float(text.removesuffix("%"))
    assert (value == 100) == (part == whole)
    assert (value == 0) == (part == 0)
    assert abs(value - 100 * part / whole) <= 10.0**-decimals


def test_rates_round_halves_up() -> None:
    """43.75 % of seven in sixteen reads 43.8 %, as the contract's example does."""
    assert percent(7, 16) == "43.8%"
    assert percent(7, 16, decimals=0) == "44%"
    assert percent(1, 800) == "0.1%"
    assert percent(999_999, 1_000_000) == "99.9%"
    assert percent(3, 3) == "100.0%"


@given(st.floats(-1e300, 1e300) | st.sampled_from([float("nan"), float("inf"), -float("inf")]), st.integers(0, 6))
def test_decimals_never_show_a_negative_zero_and_stay_short(value: float, places: int) -> None:
    """A reward takes at most 20 characters, whatever a grader returned."""
    text = decimal(value, places)
    assert len(text) <= 20
    if text != UNDEFINED:
        assert not (text.startswith("-") and float(text) == 0)
        assert abs(float(text) - value) <= max(0.500001 * 10.0**-places, abs(value) * 0.51 * 10.0**-places)


@given(st.integers(0, 10**18))
def test_thousands_read_back(count: int) -> None:
    """Separators change nothing but the look."""
    text = thousands(count)
    assert int(text.replace(",", "")) == count
    assert all(len(group) == 3 for group in text.split(",")[1:])


@given(st.floats(0, 1e8))
def test_the_clock_counts_whole_seconds(seconds: float) -> None:
    """Minutes and seconds have two digits and stay below sixty."""
    hours, minutes, rest = clock(seconds).split(":")
    assert (len(minutes), len(rest)) == (2, 2)
    assert int(hours) * 3600 + int(minutes) * 60 + int(rest) == int(seconds)


segments = st.lists(
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(lambda s: s != ".")
)


@given(segments, segments)
def test_a_path_below_the_base_is_shown_relative_to_it(base: list[str], below: list[str]) -> None:
    """Joining the base and what is shown gives the path again."""
    root = "/" + "/".join(base)
    path = "/".join([root.rstrip("/"), *below]) or "/"
    shown = relative_path(path, root)
    assert shown == ("/".join(below) or ".")


def test_a_path_elsewhere_is_shown_whole() -> None:
    """A path that only shares its beginning with the base does not lie below it."""
    assert relative_path("/srv/runs-old/x", "/srv/runs") == "/srv/runs-old/x"
    assert relative_path("relative/x", "/srv") == "relative/x"


@given(st.lists(anything))
def test_joined_leaves_out_what_is_empty(parts: list[str]) -> None:
    """No separator without something on both sides of it."""
    assert joined(parts) == " \N{MIDDLE DOT} ".join(part for part in parts if part)


arguments = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8), max_size=4)


@settings(max_examples=25)
@given(arguments)
@example(["a b", "it's", "$HOME", "\x1b[31m1", "line\nbreak", "\\x41", "", "-n", "\x070", "\u202etxt"])
def test_a_shell_reads_back_the_arguments(argv: list[str]) -> None:
    """Pasted into bash, the line gives exactly the arguments, control characters included, and shows none of them."""
    line = shell_line(argv)
    assert not any(steers(character) for character in line)
    script = f"printf '%s\\0' {line}" if argv else "true"
    result = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert result.stdout == b"".join(argument.encode() + b"\0" for argument in argv)


def test_a_file_name_that_is_not_utf8_survives_the_shell() -> None:
    """Bytes that Python holds as lone surrogates come back as the same bytes."""
    word = shell_word(b"caf\xe9".decode("utf-8", "surrogateescape"))
    result = subprocess.run(["bash", "--norc", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert result.stdout == b"caf\xe9"


@given(anything, st.integers(1, 40))
def test_a_first_line_is_harmless_and_as_short_as_was_asked_for(text: str, length: int) -> None:
    """One line that says something if any does; cut text ends with an ellipsis, and other text is left alone."""
    line = first_line(text)
    assert line == one_line(line)
    assert bool(line) == bool(one_line(text))
    short = clipped(line, length)
    assert len(short) <= length
    assert short == line if len(line) <= length else short.endswith("\N{HORIZONTAL ELLIPSIS}")


def test_one_is_no_plural():
    """A count agrees with its word."""
    assert [counted(number, "row mean") for number in (0, 1, 2, 2000)] == [
        "0 row means",
        "1 row mean",
        "2 row means",
        "2,000 row means",
    ]

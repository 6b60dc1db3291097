"""Properties of log lines (E8)."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.log_line import LineSplitter, harmless, log_line, telling
from osmosis.pure.redaction import MARKER, Redactor
from osmosis.pure.secret_forms import forms
from tests.strategies.secrets import awkward_secrets, cut, places

AT = "2026-11-30T12:35:44.521865Z"
noisy = st.text(st.characters() | st.sampled_from("\n\r\x1b[]\x07\\m0;\u202e\u2028\x85"))


@given(noisy)
def test_harmless_text_cannot_steer(text):
    """Nothing of a message starts a line, moves a cursor, changes a colour or reorders text."""
    shown = harmless(text)
    assert not any(unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs") for character in shown.replace("\t", ""))
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert harmless(shown) == shown


@given(st.text("abc \t.:"))
def test_plain_text_is_kept(text):
    """An ordinary message is written as it is."""
    assert log_line(AT, "INFO", "run", text) == f"{AT} INFO [run] {text}"


@given(noisy, noisy)
def test_details_stay_json(message, value):
    """Details are JSON on the same line, whatever their strings hold."""
    line = log_line(AT, "INFO", "run", "m", {"text": value, "n": 1, "message": message})
    assert "\n" not in line
    shown = json.loads(line.removeprefix(f"{AT} INFO [run] m "))
    assert (shown["n"], list(shown)) == (1, ["message", "n", "text"])


@given(awkward_secrets, st.data())
def test_no_secret_in_a_line(secrets, data):
    """Neither message nor details tell a secret, in whatever spelling, not even JSON text inside a detail."""
    secret = data.draw(st.sampled_from(secrets))
    body = json.dumps({"error": f"bad key {secret}"})
    line = log_line(AT, "INFO", "run", f"key {secret} {secret!r}", {"body": body, "list": [secret]}, Redactor(secrets))
    for piece in line.split(MARKER):
        assert not any(form in piece for value in secrets for form in forms(value))


@given(st.text("ab\n\r", max_size=60), places)
def test_lines_do_not_depend_on_chunks(text, cuts):
    r"""Lines are cut at `\n` alone, wherever the chunks were cut."""
    expected = [line.removesuffix("\r") for line in text.split("\n")]
    if not text.rpartition("\n")[2]:
        expected.pop()
    for chunks in (cut(text, cuts), list(text)):
        splitter = LineSplitter()
        assert [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish() == expected


@given(st.integers(1, 5), st.lists(st.integers(0, 12), min_size=1), places)
def test_long_lines_are_bounded_and_counted(limit, lengths, cuts):
    """Of a line, `limit` characters are kept, and it says how many it lost."""
    text = "".join("x" * length + "\n" for length in lengths)
    splitter = LineSplitter(limit)
    lines = [line for chunk in cut(text, cuts) for line in splitter.feed(chunk)] + splitter.finish()
    for line, length in zip(lines, lengths, strict=True):
        lost = length - limit
        assert line == "x" * min(length, limit) + (f" [... {lost} more characters]" if lost > 0 else "")


@pytest.mark.parametrize(
    "line",
    [
        'INFO:httpx:HTTP Request: POST http://127.0.0.1:41729/v1/chat/completions "HTTP/1.1 200 OK"',
        'INFO:     127.0.0.1:50122 - "POST /rollout HTTP/1.1" 202 Accepted',
        "2026-11-30 18:57:43,133 - httpx - INFO - HTTP Request: POST http://127.0.0.1/v1",
        "[DEBUG] connecting",
    ],
)
def test_routine_does_not_tell_why_a_process_ended(line):
    """What loggers say of requests is no last word; a process that said nothing else is not quoted."""
    assert telling(["about to fail", line], 3) == ("about to fail",)
    assert telling([line] * 3, 3) == ()


@pytest.mark.parametrize(
    "line",
    [
        "ModuleNotFoundError: No module named 'strands'",
        "KeyError: 'INFO'",
        "ERROR:app:no such level: INFORMATION",
        "MemoryError",
        'File "x.py", line 3, in DEBUG.run',
    ],
)
def test_last_words_are_kept(line):
    """Errors, and words that only look like a level."""
    assert telling([line], 3) == (line,)


@given(st.lists(st.text()), st.integers(1, 5))
def test_last_words_are_the_last(lines, limit):
    """At most so many, in order, from the end."""
    said = telling(lines, limit)
    assert len(said) <= limit
    assert list(said) == [line for line in lines if telling([line], 1)][-limit:]

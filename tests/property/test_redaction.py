"""Properties of redaction (E8, E9, ruling 13)."""

from __future__ import annotations

import ast
import base64
import html
import json
from collections.abc import Callable
from urllib.parse import unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.redaction import MARKER, Redactor, smallest_period, united
from osmosis.pure.secret_forms import KNOWN_VARIABLES, forms, secret_values
from tests.strategies.secrets import AWKWARD, awkward_secrets, cut, places, tiny_secrets

ENCODERS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "stripped": str.strip,
    "json": lambda value: json.dumps(value)[1:-1],
    "json raw": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "repr": lambda value: repr(value)[1:-1],
    "ascii": lambda value: ascii(value)[1:-1],
    "bytes": lambda value: repr(value.encode())[2:-1],
    "json in json": lambda value: json.dumps(json.dumps(value)[1:-1])[1:-1],
    "repr of json": lambda value: repr(json.dumps(value)[1:-1])[1:-1],
    "json of repr": lambda value: json.dumps(repr(value)[1:-1])[1:-1],
}
plain_words = st.text("cdefgh \n\t.", max_size=20)


def expected(text, secrets):
    """The rule, character by character: cover each occurrence that no marker holds, then replace each union."""
    markers = [at for at in range(len(text)) if text.startswith(MARKER, at)]
    spans = [
        (at, at + len(form))
        for form in {form for secret in secrets for form in forms(secret)}
        for at in range(len(text))
        if text.startswith(form, at) and not any(m <= at and at + len(form) <= m + len(MARKER) for m in markers)
    ]
    result, done = [], 0
    for start, end in united(spans):
        result += [text[done:start], MARKER]
        done = end
    return "".join([*result, text[done:]])


@given(tiny_secrets, st.text("abc", max_size=60))
def test_every_overlap_is_covered(secrets, text):
    """Exactly the characters of occurrences disappear, overlapping and nested ones included, one marker a union."""
    redacted = Redactor(secrets).text(text)
    assert redacted == expected(text, secrets)
    assert not any(secret in piece for secret in secrets for piece in redacted.split(MARKER))


@given(
    st.lists(st.text("ED[]x", min_size=1, max_size=3), min_size=1, max_size=3),
    st.lists(st.sampled_from([*"ED[]x", MARKER, MARKER[:4]])),
)
def test_markers_in_the_input_are_left_alone(secrets, parts):
    """What is already redacted stays as it is, though secrets may look like parts of the marker."""
    text = "".join(parts)
    assert Redactor(secrets).text(text) == expected(text, secrets)


@given(tiny_secrets | awkward_secrets, st.text("abEc \n", max_size=40))
def test_redacting_twice_changes_nothing(secrets, text):
    """A text may pass several redactions, as log lines do, without growing."""
    redactor = Redactor([secret for secret in secrets if not set("[]") & set(secret)])
    assert redactor.text(redactor.text(text)) == redactor.text(text)


@given(awkward_secrets, st.data())
def test_no_form_survives(secrets, data):
    """Whatever the spelling, next to whatever text, no part of the redacted text holds any form of any secret."""
    encoded = st.builds(
        lambda value, encode: ENCODERS[encode](value), st.sampled_from(secrets), st.sampled_from(sorted(ENCODERS))
    )
    text = "".join(data.draw(st.lists(encoded | plain_words, max_size=8)))
    redacted = Redactor(secrets).text(text)
    for piece in redacted.split(MARKER):
        assert not any(form in piece for secret in secrets for form in forms(secret))


@pytest.mark.parametrize("encode", sorted(ENCODERS))
@pytest.mark.parametrize("secret", AWKWARD)
def test_each_spelling_of_each_shape_is_replaced_whole(secret, encode):
    """The written form of a secret is replaced from its first to its last character."""
    written = ENCODERS[encode](secret)
    redacted = Redactor([secret]).text(f"<{written}>")
    assert redacted.startswith("<[REDACTED]")
    assert redacted.endswith("[REDACTED]>") or written.endswith(("\n", "\\n", " ")) or secret == "s"
    assert ENCODERS["stripped"](secret) not in redacted


@given(st.text(min_size=8, max_size=20), st.binary(max_size=5), st.binary(max_size=5))
def test_base64_inside_a_longer_text(secret, before, after):
    """As part of a longer text in base64 (`user:key` of Basic authentication), at most the bits at its two edges remain."""
    data = secret.encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        written = encode(before + data + after).decode()
        remaining = sum(map(len, Redactor([secret]).text(written).split(MARKER)))
        assert remaining <= len(written) - (8 * len(data) - 10) // 6


@pytest.mark.parametrize("secret", [secret for secret in AWKWARD if len(secret) > 1])
def test_percent_encoded(secret):
    """A secret in a URL is found, with either case of hexadecimal digits and either spelling of a space."""
    redactor = Redactor([secret])
    for written in {form for form in forms(secret) if "%" in form and unquote_plus(form) == secret}:
        assert redactor.text(f"https://host/?key={written}&x=1") == f"https://host/?key={MARKER}&x=1"


@pytest.mark.parametrize("secret", [secret for secret in AWKWARD if len(secret.encode()) > 3])
def test_hexadecimal_and_html(secret):
    """A dump of its bytes and a page that shows it are no way out."""
    redactor = Redactor([secret])
    data = secret.encode()
    for written in (data.hex(), data.hex().upper(), html.escape(secret), html.escape(secret, quote=False)):
        assert redactor.text(f"<{written}>") == f"<{MARKER}>"


@given(awkward_secrets, st.text("XYZ0189", max_size=60))
def test_text_without_secrets_is_unchanged(secrets, text):
    """Nothing is replaced that is no secret."""
    redactor = Redactor(secrets)
    if not any(form in text for secret in secrets for form in forms(secret)):
        assert redactor.text(text) == text
    assert Redactor([]).text(text) == Redactor([""]).text(text) == text


@given(tiny_secrets, st.lists(st.sampled_from(["a", "b", "ab", "c", MARKER, MARKER[:5], "E"]), max_size=40), places)
def test_chunks_do_not_matter(secrets, parts, cuts):
    """A stream gives the same text as the whole, wherever it is cut, and never anything that it must take back."""
    text = "".join(parts)
    redactor = Redactor([*secrets, "E"])
    whole = redactor.text(text)
    for chunks in (cut(text, cuts), list(text)):
        stream, out = redactor.stream(), ""
        for chunk in chunks:
            out += stream.feed(chunk)
            assert whole.startswith(out)
        assert out + stream.finish() == whole


@given(awkward_secrets, st.data(), places)
def test_chunks_do_not_matter_for_real_secrets(secrets, data, cuts):
    """The same for secrets of every shape and length, in every spelling."""
    pieces = st.sampled_from(secrets) | st.sampled_from(secrets).map(lambda value: json.dumps(value)[1:-1]) | plain_words
    text = "".join(data.draw(st.lists(pieces, max_size=8)))
    redactor = Redactor(secrets)
    for chunks in (cut(text, cuts), list(text)):
        stream = redactor.stream()
        assert "".join([stream.feed(chunk) for chunk in chunks] + [stream.finish()]) == redactor.text(text)


@pytest.mark.parametrize("after", ["", "x", "y", "]x", MARKER])
def test_a_marker_stays_whole_when_a_secret_may_begin_inside_it(after):
    """Where the end of a marker in the input may begin a secret, the stream remembers that it is a marker's end."""
    redactor = Redactor(["D", "D]x"])
    stream = redactor.stream()
    assert stream.feed(MARKER) == MARKER[:-2]
    assert MARKER[:-2] + "".join(map(stream.feed, after)) + stream.finish() == redactor.text(MARKER + after)


def test_a_stream_gives_ordinary_text_at_once():
    """Only a possible beginning of a secret is held back, and let go as soon as it turns out to be none."""
    stream = Redactor(["secret-value"]).stream()
    assert stream.feed("a line\n") == "a line\n"
    assert stream.feed("sec") == ""
    assert stream.feed("ond\n") == "second\n"
    assert stream.feed("secret-val") == ""
    assert stream.finish() == "secret-val"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("abc", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=4), inner, max_size=3),
)


@given(json_values, tiny_secrets)
def test_json_values(value, secrets):
    """Strings are redacted; keys, numbers, booleans and structure are not (ruling 13)."""
    redactor = Redactor([*secrets, "1", "true"])

    def compare(before, after):
        if isinstance(before, str):
            assert after == redactor.text(before)
        elif isinstance(before, dict):
            assert list(after) == list(before)
            for key in before:
                compare(before[key], after[key])
        elif isinstance(before, list):
            assert len(after) == len(before)
            for pair in zip(before, after, strict=True):
                compare(*pair)
        else:
            assert after is before

    compare(value, redactor.json_value(value))


@given(st.text("ab", min_size=1, max_size=12))
def test_smallest_period(text):
    """The least shift at which a text agrees with itself."""
    agreeing = [shift for shift in range(1, len(text) + 1) if text[shift:] == text[: len(text) - shift]]
    assert smallest_period(text) == agreeing[0]


@given(st.text(min_size=1, max_size=12))
def test_forms_are_spellings_of_the_value(value):
    """Python's and JSON's own readers turn the quoted forms back into the value."""
    spelled = forms(value)
    assert "" not in spelled
    assert {json.dumps(value)[1:-1], repr(value)[1:-1]} <= spelled
    assert value in {ast.literal_eval(repr(value)), json.loads(json.dumps(value))}


def test_which_values_count():
    """Configured secrets count from one character on, known variables from eight, anything else not at all (E8)."""
    environment = {"OPENAI_API_KEY": "12345678", "HF_TOKEN": "1234567", "XAI_API_KEY": "  1234567  ", "HOME": "/home/someone"}
    assert len(KNOWN_VARIABLES) == len(set(KNOWN_VARIABLES)) == 25
    assert secret_values(["x", ""], environment, ["short", "long enough"]) == {"x", "12345678", "long enough"}
    assert secret_values(["1234567"], environment) == {"1234567", "12345678"}


def test_repr_shows_no_value():
    """A redactor that ends up in a traceback tells nothing."""
    assert "hunter2" not in repr(Redactor(["hunter2"]))

"""Properties of secrets files and of where secrets come from (E7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.dotenv import Secret, parse_dotenv
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.secret_resolution import RunSecrets, missing_secrets, search_secrets, values_to_redact

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"))
variables = st.dictionaries(names, values, max_size=5)


def dictionary(secrets):
    """name -> value."""
    return {secret.name: secret.value for secret in secrets}


@given(variables, st.sampled_from(["'", '"']), st.sampled_from(["", "export ", "  export \t"]), st.booleans(), st.booleans())
def test_quoted_values_round_trip(expected, quote, export, crlf, mark):
    """Any value without newlines can be written between quotes, after `export` or not, with either line end, after a BOM."""
    end = "\r\n" if crlf else "\n"
    text = "# comment" + end + end.join(f"{export}{name} = {quote}{value}{quote} " for name, value in expected.items())
    data = ("\ufeff" if mark else "") + text
    assert dictionary(parse_dotenv(data.encode(), "f")) == expected


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("A=", ""),
        ("A=''", ""),
        ("A='", "'"),
        ("A='x\"", "'x\""),
        ("A=\"'x'\"", "'x'"),
        ("A=x # not a comment", "x # not a comment"),
        ("A=a=b", "a=b"),
        (r"A=a\nb", r"a\nb"),
        ("A=x\u2028y\x85", "x\u2028y"),
        ("A=1\nA=2", "2"),
    ],
)
def test_grammar(line, value):
    """One pair of matching quotes goes, the first = splits; no comments after values, no escapes; the last line wins."""
    assert dictionary(parse_dotenv(line.encode(), "f")) == {"A": value}


def test_export_may_be_a_name():
    """`export=1` sets a variable called export."""
    assert dictionary(parse_dotenv(b"export=1", "f")) == {"export": "1"}


def test_bad_lines_are_all_named_and_none_is_quoted():
    """Every bad line is reported by file and number; the content, which may be a secret, is in no part of the error."""
    data = b"GOOD=topsecret\nsk-topsecret\n\ntop secret=topsecret\n=topsecret\nN=topsecret\0\n1A=topsecret"
    with pytest.raises(OsmosisError) as caught:
        parse_dotenv(data, "my.env")
    error = caught.value
    assert [problem.where for problem in error.problems] == [f"my.env:{number}" for number in (2, 4, 5, 6, 7)]
    assert "secret" not in f"{error} {error.hint} {error.details}".replace("my.env", "")


def test_not_utf8_names_the_byte():
    """A file in another encoding is refused with the offset of the first bad byte."""
    with pytest.raises(OsmosisError, match="byte offset 2"):
        parse_dotenv(b"A=\xff", "f")


@given(st.lists(names, max_size=5), variables, variables)
def test_precedence(required, file, environment):
    """File, even if empty there; then the environment, if not empty; else missing. Nothing is lost, nothing invented."""
    search = search_secrets(required, [Secret(*pair) for pair in file.items()], environment)
    found = dictionary(search.found)
    assert set(found) | set(search.missing) == set(required)
    for name in required:
        assert found.get(name) == (file[name] if name in file else environment.get(name) or None)
    assert dictionary(search.extra) == {name: value for name, value in file.items() if name not in required}


def test_missing_names_come_in_one_error():
    """All missing names at once, for people and for programs."""
    error = missing_secrets(["B", "A"])
    assert error.code is ErrorCode.INTERACTIVE_REQUIRED
    assert error.details == {"missing": ["B", "A"], "flags": ["--secrets-file"]}
    assert "B" in str(error)


def test_repr_hides_the_value():
    """A secret in a traceback tells its name only, alone or inside another record."""
    secrets = RunSecrets((Secret("KEY", "hunter2"),), (Secret("OTHER", "hunter3"),))
    assert "hunter" not in repr(secrets)
    assert "KEY" in repr(secrets)


def test_endpoints_are_no_secrets():
    """A base URL that came with the secrets stays readable; one with credentials in it does not."""
    extra = (Secret("OPENAI_BASE_URL", "https://host/v1"), Secret("DB", "https://u:p@host/"), Secret("K", "abcdefgh"))
    assert values_to_redact(RunSecrets((Secret("R", "x"),), extra)) == (("x",), ("https://u:p@host/", "abcdefgh"))

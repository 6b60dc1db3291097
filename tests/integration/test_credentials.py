"""The secrets file, the questions, and the environment that is put back (E7)."""

from __future__ import annotations

import io
import os

import pytest

from osmosis.pure.dotenv import Secret
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.shell.evaluation.credentials import placed_in_environment, read_secrets_file, resolve_secrets


def test_file_and_standard_input_read_alike(tmp_path):
    """`-` is standard input; both give the same variables."""
    (tmp_path / "s.env").write_bytes(b"A=1\nB='x y'\n")
    expected = (Secret("A", "1"), Secret("B", "x y"))
    assert read_secrets_file(str(tmp_path / "s.env")) == expected
    assert read_secrets_file("-", io.BytesIO(b"A=1\nB='x y'\n")) == expected


def test_missing_file_and_directory_are_clean_errors(tmp_path):
    """A file that is not there, or is a directory, is an error that names it, not a traceback."""
    with pytest.raises(OsmosisError, match="No such file") as caught:
        read_secrets_file(str(tmp_path / "none.env"))
    assert caught.value.code is ErrorCode.NOT_FOUND
    with pytest.raises(OsmosisError, match="Is a directory"):
        read_secrets_file(str(tmp_path))


def test_large_file_is_refused():
    """What cannot be a secrets file is not read into memory."""
    with pytest.raises(OsmosisError, match="more than"):
        read_secrets_file("-", io.BytesIO(b"A=" + b"x" * (1 << 21)))


def test_only_missing_names_are_asked_for():
    """File and environment come first; the person is asked for the rest, in config order."""
    asked = []

    def prompt(name):
        asked.append(name)
        return f"answer {name}"

    secrets = resolve_secrets(["D", "A", "B", "C"], [Secret("A", ""), Secret("X", "9")], {"B": "b", "C": ""}, prompt)
    assert asked == ["D", "C"]
    assert secrets.required == (Secret("D", "answer D"), Secret("A", ""), Secret("B", "b"), Secret("C", "answer C"))
    assert secrets.extra == (Secret("X", "9"),)


@pytest.mark.parametrize("prompt", [None, lambda name: None, lambda name: ""])
def test_no_answer_is_missing(prompt):
    """Where nobody can be asked, or no answer comes, all missing names stand in one error."""
    with pytest.raises(OsmosisError) as caught:
        resolve_secrets(["A", "B", "C"], [], {"B": "1"}, prompt)
    assert caught.value.details == {"missing": ["A", "C"], "flags": ["--secrets-file"]}


@pytest.mark.parametrize("way_out", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_environment_is_restored_on_every_way_out(monkeypatch, way_out):
    """Inside, the values are there; outside, what was there before is back, and what was not is gone."""
    monkeypatch.setenv("OSMOSIS_TEST_SET", "before")
    monkeypatch.delenv("OSMOSIS_TEST_UNSET", raising=False)
    before = dict(os.environ)

    def visit():
        with placed_in_environment([Secret("OSMOSIS_TEST_SET", "now"), Secret("OSMOSIS_TEST_UNSET", "new")]):
            assert (os.environ["OSMOSIS_TEST_SET"], os.environ["OSMOSIS_TEST_UNSET"]) == ("now", "new")
            del os.environ["OSMOSIS_TEST_UNSET"]
            if way_out is not None:
                raise way_out

    if way_out is None:
        visit()
    else:
        with pytest.raises(way_out):
            visit()
    assert dict(os.environ) == before

"""What a sync of a rollout's environment depends on (`osmosis.pure.environment_stamp`)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.environment_stamp import Installed, environment_fingerprint, path_sources, steering

INSTALLED = Installed("python", "uv", ("a-1.dist-info", "b-2.dist-info"))
FILES = {"/p/pyproject.toml": b"x", "/p/uv.lock": None}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (({**FILES, "/p/uv.lock": b""}, {}, INSTALLED), "a lock appeared"),
        (({**FILES, "/p/pyproject.toml": b"y"}, {}, INSTALLED), "the project changed"),
        ((FILES, {"UV_INDEX_URL": "x"}, INSTALLED), "a variable of uv changed"),
        ((FILES, {}, Installed("other", "uv", INSTALLED.distributions)), "another Python"),
        ((FILES, {}, Installed("python", "newer", INSTALLED.distributions)), "another uv"),
        ((FILES, {}, Installed("python", "uv", ("a-1.dist-info",))), "a package was removed by hand"),
    ],
)
def test_whatever_a_sync_depends_on_changes_the_fingerprint(changed, why):
    """A start syncs again after each of these."""
    assert environment_fingerprint(*changed) != environment_fingerprint(FILES, {}, INSTALLED), why


@given(st.dictionaries(st.text(), st.text()))
def test_other_variables_do_not(variables):
    """A key, a label or a terminal setting makes nobody wait for uv."""
    others = {name: value for name, value in variables.items() if name not in steering(variables)}
    assert environment_fingerprint(FILES, others, INSTALLED) == environment_fingerprint(FILES, {}, INSTALLED)


def test_checkouts_named_by_path_take_part():
    """A new dependency of an SDK checkout (E21) is synced like one of the rollout."""
    project = (
        b'[tool.uv.sources]\nb = { path = "../b", editable = true }\na = [{ path = "/a", marker = "x" }, { index = "i" }]\n'
    )
    assert path_sources(project) == ("../b", "/a")


@pytest.mark.parametrize(
    "project",
    [
        b"[tool.uv.workspace]\nmembers = []\n",
        b"[tool.uv.sources]\na = { workspace = true }\n",
        b'[tool.uv]\ncache-keys = [{ file = "version.txt" }]\n',
        b'[project]\ndynamic = ["dependencies"]\n',
        b"not TOML",
        b"\xff",
    ],
)
def test_where_uv_looks_further_there_is_no_stamp(project):
    """Every start syncs, as without this."""
    assert path_sources(project) is None


@given(st.binary())
def test_any_bytes_are_judged(data):
    """A file that is no project is no reason to fail."""
    path_sources(data)

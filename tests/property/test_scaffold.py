"""A new rollout's files: names, places, the source of the SDK (E21; rollout_protocol section 18)."""

from __future__ import annotations

import json
import tomllib
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import OsmosisError
from osmosis.pure.scaffold import PLACEHOLDER, TEMPLATES, check_name, scaffold

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True).filter(lambda name: name != "default")
TEXTS = dict.fromkeys(TEMPLATES, f"# {PLACEHOLDER}\n")


@given(NAMES)
def test_every_file_lies_in_its_place_and_carries_the_name(name):
    """No file leaves the workspace, and no placeholder is left."""
    plan = scaffold(name, TEXTS, None)
    assert {file.path for file in plan.files} == {path.replace(PLACEHOLDER, name) for path in TEMPLATES.values()}
    for file in plan.files:
        path = PurePosixPath(file.path)
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert file.text == f"# {name}\n"
    assert {file.path for file in plan.inside} == {f"rollouts/{name}/{n}" for n in ("main.py", "pyproject.toml", "README.md")}
    assert len(plan.inside) + len(plan.outside) == len(plan.files)


@pytest.mark.parametrize("name", ["", "Upper", "1st", "a_b", "a b", "../x", "a/b", "default", "é", "a\n", "-a"])
def test_names_that_are_none(name):
    """Refused before anything is written."""
    with pytest.raises(OsmosisError):
        check_name(name)


@given(NAMES, st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_any_path_of_a_checkout_survives_toml(name, checkout):
    """Quotes, backslashes and line breaks included."""
    plan = scaffold(name, {**TEXTS, "pyproject.toml.txt": '[project]\nname = "x"\n'}, checkout)
    (pyproject,) = (file.text for file in plan.files if file.path.endswith("pyproject.toml"))
    document = tomllib.loads(pyproject)
    assert document["tool"]["uv"]["sources"]["osmosis-ai"] == {"path": checkout, "editable": True}
    json.dumps(document)

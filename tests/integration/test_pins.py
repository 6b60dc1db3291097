"""The pins in `requirements/` follow from `pyproject.toml`, and the check that says so notices when they do not."""

from __future__ import annotations

import copy
import re
import tomllib

import pytest
from packaging.requirements import Requirement

import osmosis
from scripts.lock import PIN_FILES, ROOT, follower_problems, offline_problems, with_versions

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEV = PIN_FILES[0]
DEV_TEXT = (ROOT / DEV.file).read_text()


@pytest.mark.parametrize("pins", PIN_FILES, ids=lambda pins: pins.file)
def test_the_pins_follow_from_pyproject(pins):
    """What is committed is consistent, as far as can be told without a registry."""
    assert offline_problems(pins, (ROOT / pins.file).read_text(), PYPROJECT) == []


DAMAGE = {
    "a pin is missing": (r"^msgspec==(.|\n)*?(?=^[a-z])", "", "no pin for msgspec"),
    "a pin is out of range": (r"^litellm==\S+", "litellm==1.82.8", "litellm==1.82.8 is outside"),
    "a hash is missing": (r"^(rich==\S+) \\\n(    --hash=\S+( \\)?\n)+", r"\1\n", "no hash for rich=="),
    "an address has crept in": (r"\A", "--index-url https://mirror.example/simple\n", "holds an address"),
    "the digest is gone": (r"^# inputs: .*\n", "", "have changed since"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_pins_are_found(name: str):
    """Each kind of disagreement is reported in words that name it."""
    pattern, replacement, expected = DAMAGE[name]
    text, count = re.subn(pattern, replacement, DEV_TEXT, count=1, flags=re.MULTILINE)
    assert count == 1
    assert any(expected in problem for problem in offline_problems(DEV, text, PYPROJECT))


def test_a_new_dependency_without_a_new_lock_is_found():
    """Editing pyproject.toml alone is noticed, even when what was pinned would still satisfy it."""
    edited = copy.deepcopy(PYPROJECT)
    edited["project"]["dependencies"].append("packaging")
    assert any("have changed since" in problem for problem in offline_problems(DEV, DEV_TEXT, edited))


@pytest.mark.parametrize("version", ["1.82.7", "1.82.8"])
def test_malicious_releases_are_excluded(version: str):
    """LiteLLM 1.82.7 and 1.82.8 cannot be installed, not even by somebody who ignores the pins."""
    [litellm] = [entry for entry in PYPROJECT["project"]["optional-dependencies"]["eval"] if entry.startswith("litellm")]
    assert not Requirement(litellm).specifier.contains(version)


def test_the_example_follows_the_pins():
    """A rollout of the example is installed at the versions that the tests ran with, and a difference would be found."""
    assert follower_problems() == []
    text = 'constraint-dependencies = [\n    "Rich-rst==1.0",\n    "unknown==1.0",\n]\n'
    assert with_versions(text, {"rich-rst": "2.2.0"}) == text.replace('rst==1.0"', 'rst==2.2.0"')


def test_bootstrap_and_development_agree_on_versions():
    """uv and just have one version each, whichever file installed them."""
    pinned = [dict(re.findall(r"^([a-z-]+)==(\S+)", (ROOT / pins.file).read_text(), re.MULTILINE)) for pins in PIN_FILES[:2]]
    development, bootstrap = pinned
    assert bootstrap.items() <= development.items()


def test_the_version_stands_in_one_spelling():
    """`osmosis.__version__` is the version of the distribution."""
    assert PYPROJECT["project"]["version"] == osmosis.__version__

"""`osmosis doctor` judges facts: what stands in the way is an error, and only that."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.checkup import REQUIRED_PATHS, ConfigFact, Facts, Health, ModelFact, checks, missing_variables, worst
from tests.strategies.cli_records import FACTS


def health(facts: Facts) -> dict[str, Health]:
    """Each check's health by its name."""
    return {check.name: check.health for check in checks(facts)}


def test_a_machine_in_order() -> None:
    """Every check is ok, and each says what it found."""
    assert set(health(FACTS).values()) == {Health.OK}
    assert all(check.finding for check in checks(FACTS))


FAULTS = [
    ({"workspace": None}, "Workspace", Health.ERROR),
    ({"missing": ("rollouts",)}, "Workspace", Health.ERROR),
    ({"missing": ("data",)}, "Platform Layout", Health.WARNING),
    ({"git": False}, "Git", Health.WARNING),
    ({"ignored": False}, "Git", Health.WARNING),
    ({"python": (3, 10, 9)}, "Python", Health.ERROR),
    ({"lacking": ("polars",)}, "Packages", Health.ERROR),
    ({"uv": None}, "uv", Health.ERROR),
    ({"configs": ()}, "Eval Configs", Health.SKIPPED),
    ({"configs": (ConfigFact("a.toml", ("bad",)),)}, "Eval Configs", Health.ERROR),
    ({"secrets_missing": ("KEY",)}, "Secrets", Health.WARNING),
    ({"models": (ModelFact("m", "h", status=401),)}, "Model m", Health.ERROR),
    ({"models": (ModelFact("m", "h", status=404),)}, "Model m", Health.OK),
    ({"models": (ModelFact("m", "h", status=500),)}, "Model m", Health.WARNING),
    ({"models": (ModelFact("m", "h", trouble="refused"),)}, "Model m", Health.ERROR),
    ({"models": (ModelFact("m", problem="no key"),)}, "Model m", Health.WARNING),
    ({"models": (ModelFact("m", "h"),)}, "Model m", Health.SKIPPED),
    ({"free_bytes": 1000}, "Disk", Health.WARNING),
    ({"free_bytes": None}, "Disk", Health.SKIPPED),
    ({"descriptors": 256}, "Open Files", Health.WARNING),
    ({"today": "1970-01-01"}, "Clock", Health.ERROR),
    ({"models": (ModelFact("m", "h", status=200, skew_s=61.0),)}, "Clock", Health.WARNING),
    ({"models": (ModelFact("m", "h", status=200, skew_s=-59.0),)}, "Clock", Health.OK),
]


@pytest.mark.parametrize(("change", "name", "expected"), FAULTS)
def test_one_fault_shows_in_its_check(change: dict[str, object], name: str, expected: Health) -> None:
    """A fault changes the check it belongs to, says what to do where something is wrong, and spares the other checks."""
    facts = msgspec.structs.replace(FACTS, **change)
    found = health(facts)
    assert found[name] is expected
    bad = [check for check in checks(facts) if check.health in (Health.ERROR, Health.WARNING)]
    assert all(check.hint for check in bad)
    assert {check.name for check in bad} <= {name, "Platform Layout"}


@given(st.lists(st.sampled_from(FAULTS), max_size=8))
def test_the_worst_check_decides(faults: list[tuple[dict[str, object], str, Health]]) -> None:
    """An error anywhere is an error, else a warning anywhere a warning; order does not matter."""
    facts = FACTS
    for change, _, _ in faults:
        facts = msgspec.structs.replace(facts, **change)
    found = checks(facts)
    states = {check.health for check in found}
    expected = next((state for state in (Health.ERROR, Health.WARNING) if state in states), Health.OK)
    assert worst(found) is worst(reversed(found)) is expected


def test_outside_of_a_workspace_both_directories_are_named() -> None:
    """What is missing is named, so that it can be made by hand as well."""
    (check, *_) = checks(msgspec.structs.replace(FACTS, workspace=None))
    assert all(f"{path}/" in check.finding for path in REQUIRED_PATHS)
    assert check.fixable


@given(st.lists(st.sampled_from("ABCD")), st.sets(st.sampled_from("ABCD")))
def test_missing_variables_are_named_once(required: list[str], present: set[str]) -> None:
    """Every required name is either present or named once."""
    missing = list(missing_variables(required, present))
    assert set(missing) == set(required) - present
    assert len(missing) == len(set(missing))

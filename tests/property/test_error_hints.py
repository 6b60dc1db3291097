"""Every error says what to do next (issue 9: code, message, hint)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[2] / "osmosis").rglob("*.py"))
ERRORS = {"OsmosisError", "UsageError"}


def without_hint(source: str) -> list[int]:
    """The lines where an error is made without a hint."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [
        call.lineno
        for call in calls
        if getattr(call.func, "id", getattr(call.func, "attr", None)) in ERRORS
        and not any(keyword.arg == "hint" for keyword in call.keywords)
    ]


def test_every_error_in_the_source_has_a_hint() -> None:
    """Wherever an error is made, a hint is given with it."""
    assert len(SOURCES) > 200
    found = [f"{path.name}:{line}" for path in SOURCES for line in without_hint(path.read_text())]
    assert found == []


@pytest.mark.parametrize("call", ["OsmosisError('no')", "errors.OsmosisError('no', problems=[])", "UsageError('no')"])
def test_a_missing_hint_is_found(call: str) -> None:
    """The test above can fail."""
    assert without_hint(f"def f():\n    raise {call}\n") == [2]
    assert without_hint(f"raise {call[:-1]}, hint='do so')") == []

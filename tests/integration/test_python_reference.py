"""The Python reference says what the source says: every public name, its signature, its words (issue 9)."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from scripts import python_reference
from scripts.python_reference import GROUPS, found, home, page, public_names

MODULES = [module for modules in GROUPS.values() for module in modules]
ELSEWHERE = ("osmosis_ai.rollout.integrations", "osmosis_ai.rollout.backend.harbor")
"""Modules whose names need packages that are not installed here."""

SAMPLE = '''"""A module.

With `code` and a <tag>.
"""

from __future__ import annotations

LIMIT = 3
"""How many."""

TEXT: str = "a: b"


class Thing:
    """A thing."""

    size: int = 1
    """In metres."""

    @property
    def name(self) -> str:
        """Its name."""
        return "x"

    @classmethod
    def made(cls, *, of: list[Thing]) -> Thing:
        """Made *of* others."""

    async def go(self, *steps: int, **options: str) -> None:
        """Go."""

    def _hidden(self) -> None:
        """Not public."""


def join(things: "list[Thing]", sep: str = ", ") -> Thing | None:
    """Join."""


def _private() -> None:
    """Not public."""
'''


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_there(module: str) -> None:
    """Each name of `__all__` has its entry on the page, or is named with the place of its entry; each is explained."""
    text = page(module)
    entries = re.findall(r"^:::+\{py:(\w+)\} (\w+)", text, re.MULTILINE)
    documented = {name for kind, name in entries if kind in ("function", "class", "data")}
    elsewhere = set(re.findall(r"\{py:obj\}`[\w.]*?(\w+)`", text))
    assert set(public_names(module)) <= documented | elsewhere
    for name in public_names(module):
        definition = found(module, name)
        assert home(definition) is not None
        if isinstance(definition.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            assert ast.get_docstring(definition.node), f"{module}.{name} is not explained"


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith(ELSEWHERE)])
def test_the_names_are_those_that_can_be_imported(module: str) -> None:
    """What the page offers is what Python finds: reading the source and importing it agree."""
    loaded = import_module(module)
    for name in public_names(module):
        value = getattr(loaded, name)
        node = found(module, name).node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert list(inspect.signature(value).parameters) == [
                argument.arg
                for argument in (
                    *node.args.posonlyargs,
                    *node.args.args,
                    node.args.vararg,
                    *node.args.kwonlyargs,
                    node.args.kwarg,
                )
                if argument is not None
            ]
        elif isinstance(node, ast.ClassDef):
            assert inspect.isclass(value)


def test_a_page_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants with values and notes, fields, properties, kinds of methods, signatures with links; nothing private."""
    (tmp_path / "sample.py").write_text(SAMPLE)
    monkeypatch.setattr(python_reference, "ROOT", tmp_path)
    monkeypatch.setattr(python_reference, "GROUPS", {"All": ("sample",)})
    for cached in (python_reference._tree, python_reference._defined, python_reference._homes):
        cached.cache_clear()
    try:
        text = page("sample")
    finally:
        for cached in (python_reference._tree, python_reference._defined, python_reference._homes):
            cached.cache_clear()
    for wanted in (
        "With `code` and a \\<tag\\>.",
        ':::{py:data} LIMIT\n:value: "3"\n\nHow many.',
        ":::{py:data} TEXT\n:type: str\n:value: \"'a: b'\"\n",
        "::::{py:class} Thing\n",
        ':::{py:attribute} size\n:type: int\n:value: "1"\n:no-contents-entry:\n\nIn metres.',
        ":::{py:property} name\n:type: str\n",
        ":::{py:method} made(*, of: list[sample.Thing]) -> sample.Thing\n:classmethod:\n\nMade \\*of\\* others.",
        ":::{py:method} go(*steps: int, **options: str) -> None\n:async:\n",
        ":::{py:function} join(things: list[sample.Thing], sep: str=', ') -> sample.Thing | None\n",
    ):
        assert wanted in text
    assert "hidden" not in text
    assert "private" not in text

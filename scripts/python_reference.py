"""The Python reference of the site: one page a module, drawn from the code as it stands (issue 9).

`pages()` gives Markdown in MyST's dialect, in which every function, class and constant is an object of Sphinx's Python domain:
it has a link of its own and is found by search. Signatures are those of the source, docstrings its words. What is public: the
names in a module's `__all__`, else what it defines without a leading underscore.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

GROUPS: Mapping[str, tuple[str, ...]] = {
    "For notebooks": ("osmosis",),
    "For rollouts": (
        "osmosis_ai.rollout",
        "osmosis_ai.rollout.context",
        "osmosis_ai.rollout.server",
        "osmosis_ai.rollout.client",
        "osmosis_ai.rollout.trajectory",
        "osmosis_ai.rollout.types",
        "osmosis_ai.testing",
    ),
    "For agent frameworks and sandboxes": (
        "osmosis_ai.rollout.integrations.agents.openai_agents",
        "osmosis_ai.rollout.integrations.agents.strands",
        "osmosis_ai.rollout.backend.harbor",
        "osmosis_ai.rollout.backend.harbor.bubblewrap",
        "osmosis_ai.packaging",
    ),
    "For rewards, judges and remote rollouts": ("osmosis_ai",),
    "The core: numbers": tuple(
        f"osmosis.pure.{name}"
        for name in (
            *("metrics", "metrics_file", "estimate", "uncertainty", "statistics", "intervals", "bootstrap", "pass_at_k"),
            *("comparison", "gate", "agreement"),
        )
    ),
    "The core: inputs": tuple(f"osmosis.pure.{name}" for name in ("config", "dataset", "selection", "plan", "digest")),
    "The core: what is on disk": tuple(
        f"osmosis.pure.{name}"
        for name in (
            "journal",
            "resume",
            "index",
            "index_frame",
            "dataset_rows",
            "stored_run",
            "trajectory",
            "cassette",
            "usage",
        )
    ),
    "The core: everywhere": tuple(f"osmosis.pure.{name}" for name in ("errors", "canonical", "redaction")),
}
"""The public modules, as the site shows them."""

LAZY = {"osmosis": "osmosis.shell.notebook"}
"""Where a module without imports of its own fetches its names when they are first used."""

ROOT = Path(__file__).resolve().parent.parent

LONGEST_VALUE = 100
"""Of a constant that is shown with its value."""

_CODE = re.compile(r"(`+[^`]+`+)")
_SELF = re.compile(r"\((?:self|cls)(?:, /)?(?:, )?")
_MARKUP = re.compile(r"([<>*\[\]{}])")


class Definition(NamedTuple):
    """Where a name comes from: the module that defines it, the statement, and the text that stands right behind it."""

    module: str
    node: ast.stmt
    note: str


def pages() -> Iterator[tuple[str, str]]:
    """Path below `docs/` and text of each page."""
    for modules in GROUPS.values():
        for name in modules:
            yield f"python/{name}.md", page(name)


def index() -> str:
    """The list of all pages, group by group, to stand at the end of `docs/python.md`."""
    parts = []
    for group, modules in GROUPS.items():
        lines = [f"- [`{name}`](python/{name}.md): {_first_sentence(name)}" for name in modules]
        parts += [f"## {group}\n", "\n".join(lines) + "\n"]
    return "\n".join(parts)


def _first_sentence(module: str) -> str:
    paragraph = " ".join((ast.get_docstring(_tree(module)) or "").split("\n\n")[0].split())
    return prose(paragraph.partition(". ")[0].rstrip(".")) + "."


def page(module: str) -> str:
    """The page of one module. What has its home on the page of another is only named here."""
    about = prose(ast.get_docstring(_tree(module)) or "")
    blocks = [f"# `{module}`\n", f":::{{py:module}} {module}\n:::\n", about + "\n"]
    homes = {name: home(found(module, name)) for name in public_names(module)}
    blocks += [_definition(found(module, name), name) for name, full in homes.items() if full == f"{module}.{name}"]
    if elsewhere := [f"{{py:obj}}`{full}`" for name, full in homes.items() if full != f"{module}.{name}"]:
        blocks.append(f"Importable from here as well: {', '.join(elsewhere)}.\n")
    return "\n".join(blocks)


@cache
def _homes() -> Mapping[tuple[str, int], str]:
    """Where each public definition has its entry: the module that defines it, if that is public, else the first to offer it."""
    public = [module for modules in GROUPS.values() for module in modules]
    homes: dict[tuple[str, int], str] = {}
    for module in public:
        for name in public_names(module):
            definition = found(module, name)
            key = (definition.module, definition.node.lineno)
            if definition.module == module:
                homes[key] = f"{module}.{name}"
            elif definition.module not in public:
                homes.setdefault(key, f"{module}.{name}")
    return homes


def home(definition: Definition) -> str | None:
    """The full name under which a definition has its entry; None where it is not public."""
    return _homes().get((definition.module, definition.node.lineno))


def notes(module: str, name: str) -> dict[str, str]:
    """The members of a class with the text behind each, as the source has them."""
    node = found(module, name).node
    return {member: note for member, _, note in _statements(node.body)} if isinstance(node, ast.ClassDef) else {}


def public_names(module: str) -> list[str]:
    """What the module offers, in the order of its `__all__` or of its source."""
    offered = [node.value for node in _tree(module).body if isinstance(node, ast.Assign) and "__all__" in _names(node)]
    names = ast.literal_eval(offered[0]) if offered else _defined(module)
    return [name for name in names if not name.startswith("_")]


@cache
def _tree(module: str) -> ast.Module:
    place = ROOT / module.replace(".", "/")
    file = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _defined(module: str) -> Mapping[str, Definition]:
    """What the module's own statements define, by name."""
    return {name: Definition(module, node, note) for name, node, note in _statements(_tree(module).body)}


def _statements(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt, str]]:
    """Name, statement and the string behind it, for functions, classes and assignments."""
    for node, following in zip(body, [*body[1:], None], strict=True):
        for name in _names(node):
            yield name, node, _text(following)


def _names(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield name


def _text(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
    return ""


def found(module: str, name: str) -> Definition:
    """The definition of a public name, through re-exports. Raises KeyError when there is none."""
    if name in _defined(module):
        return _defined(module)[name]
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return found(node.module, alias.name)
    return found(LAZY[module], name)


def _definition(definition: Definition, name: str) -> str:
    match definition.node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return _directive("function", *_function(name, definition.node, definition.module))
        case ast.ClassDef():
            return _class(name, definition.node, definition.module)
    return _directive("data", *_data(name, definition))


def _directive(kind: str, signature: str, options: str, text: str, fence: str = ":::") -> str:
    return f"{fence}{{py:{kind}}} {signature}\n{options}\n{text}\n{fence}\n"


class _FullNames(ast.NodeTransformer):
    """Names in annotations become full names, so that each links to the one thing it means; the path is not shown."""

    def __init__(self, module: str) -> None:
        self.module = module

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """One name."""
        try:
            full = home(found(self.module, node.id))
        except (KeyError, OSError):  # of another package
            return node
        return ast.Name(full) if full else node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """An annotation that is written as a string."""
        if not isinstance(node.value, str):
            return node
        named: ast.expr = self.visit(ast.parse(node.value, mode="eval").body)
        return named


def _annotation(node: ast.expr, module: str) -> str:
    literal = isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
    return ast.unparse(node if literal else _FullNames(module).visit(copy.deepcopy(node)))


def _function(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, module: str) -> tuple[str, str, str]:
    arguments = copy.deepcopy(node.args)
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg) and argument.annotation:
            argument.annotation = ast.Name(_annotation(argument.annotation, module))
    returned = f" -> {_annotation(node.returns, module)}" if node.returns else ""
    options = ":async:\n" if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{name}({ast.unparse(arguments)}){returned}", options, prose(ast.get_docstring(node) or "")


def _data(name: str, definition: Definition) -> tuple[str, str, str]:
    node, options = definition.node, ""
    if isinstance(node, ast.AnnAssign):
        options += f":type: {_annotation(node.annotation, definition.module)}\n"
    value = getattr(node, "value", None)
    shown = ast.unparse(value) if value is not None else ""
    if shown and len(shown) <= LONGEST_VALUE and "\n" not in shown:
        options += f":value: {json.dumps(shown)}\n"
    return name, options, prose(definition.note)


def _class(name: str, node: ast.ClassDef, module: str) -> str:
    members = [part for part in _members(node, module) if part]
    bases = [ast.unparse(base) for base in node.bases if ast.unparse(base) != "msgspec.Struct"]
    inherited = f"\nBases: {', '.join(f'`{base}`' for base in bases)}.\n" if bases else ""
    text = "\n".join([prose(ast.get_docstring(node) or ""), inherited, *members])
    return _directive("class", name, "", text, fence="::::")


def _members(node: ast.ClassDef, module: str) -> Iterator[str]:
    for name, statement, note in _statements(node.body):
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not name.startswith("_") or name == "__init__":
                yield _method(name, statement, module)
            case ast.AnnAssign() | ast.Assign() if not name.startswith("_"):
                signature, options, text = _data(name, Definition(module, statement, note))
                # An attribute called `type` would be taken for the meaning of every `type` in a signature.
                hidden = ":no-index:\n" if hasattr(builtins, name) else ""
                yield _directive("attribute", signature, f"{options}{hidden}:no-contents-entry:\n", text)


def _method(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, module: str) -> str:
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    if decorators & {"setter", "overload"}:
        return ""
    signature, options, text = _function(name, node, module)
    if decorators & {"property", "cached_property"}:
        kind = f":type: {_annotation(node.returns, module)}\n" if node.returns else ""
        return _directive("property", name, f"{kind}:no-contents-entry:\n", text)
    options += "".join(f":{kind}:\n" for kind in ("classmethod", "staticmethod", "abstractmethod") if kind in decorators)
    bound = signature if "staticmethod" in decorators else _SELF.sub("(", signature, count=1)
    return _directive("method", bound, options, text)


def prose(text: str) -> str:
    """A docstring as Markdown: code in backquotes stays as it is, nothing else is taken for markup."""
    parts = _CODE.split(text)
    return "".join(part if number % 2 else _MARKUP.sub(r"\\\1", part) for number, part in enumerate(parts))

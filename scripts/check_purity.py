"""Prove from the syntax tree that `osmosis.pure` has no effects and that `osmosis_ai` only re-exports (ruling 29).

    python scripts/check_purity.py

Every line counts, also in functions that nobody calls, under `if TYPE_CHECKING` or inside a class body. Three rules hold in the
core: a module may import only what stands in `EFFECT_FREE` (a list of what is allowed ages better than a list of what is not);
of modules with two sides only the harmless names may be used (`PARTLY_PURE`); and some built-ins, attributes and statements are
refused whatever they belong to. Names are followed through `import ... as`, `from ... import ... as` and plain assignments.

What a syntax tree cannot see (a file opened by a library on the core's behalf) the audit hook of the tests sees.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


def _words(text: str) -> list[str]:
    return text.split()


EFFECT_FREE = frozenset(
    _words("""
    __future__ abc array ast base64 binascii bisect collections contextlib copy csv dataclasses datetime decimal difflib email
    enum fractions functools hashlib heapq hmac html io ipaddress itertools json keyword math numbers operator pathlib re shlex
    statistics string struct sys textwrap tomllib types typing unicodedata urllib uuid zlib
    ahocorasick_rs msgspec polars typing_extensions xxhash
    """)
)

# Modules with two sides: what the core may use of them. A trailing `*` stands for every name with that beginning.
PARTLY_PURE: dict[str, tuple[str, ...]] = {
    "email": ("utils",),
    "email.utils": ("format_datetime", "parsedate_to_datetime"),
    "datetime": ("datetime", "date", "time", "timedelta", "timezone", "tzinfo", "UTC", "MINYEAR", "MAXYEAR"),
    "io": ("StringIO", "BytesIO", "TextIOWrapper"),
    "pathlib": ("PurePath", "PurePosixPath", "PureWindowsPath"),
    "sys": ("float_info", "int_info", "maxsize", "maxunicode", "byteorder", "version_info"),
    "urllib": ("parse",),
    "uuid": ("UUID", "NAMESPACE_*", "uuid5"),
}

# What an unlisted module would bring in, for the message. The list of the allowed decides; this one only explains.
EFFECTS: dict[str, str] = {
    **dict.fromkeys(("os", "posix", "nt", "platform", "getpass", "pwd", "locale", "sysconfig", "site"), "the environment"),
    **dict.fromkeys(("time", "sched", "zoneinfo", "calendar", "timeit"), "the clock"),
    **dict.fromkeys(("random", "secrets", "numpy"), "randomness"),
    **dict.fromkeys(("glob", "shutil", "tempfile", "fileinput", "mmap", "zipfile", "tarfile", "sqlite3", "filelock"), "files"),
    **dict.fromkeys(("socket", "ssl", "select", "selectors", "http", "httpx", "aiohttp", "requests", "ftplib"), "the network"),
    **dict.fromkeys(("subprocess", "signal", "multiprocessing", "pty", "ctypes"), "processes"),
    **dict.fromkeys(("threading", "_thread", "concurrent", "asyncio", "anyio", "queue", "contextvars"), "threads or tasks"),
    **dict.fromkeys(("logging", "warnings", "syslog", "rich", "pprint"), "logging or output"),
    **dict.fromkeys(("importlib", "runpy", "pkgutil", "builtins", "inspect", "gc", "atexit", "pickle", "code"), "running code"),
    **dict.fromkeys(("osmosis.shell", "osmosis_ai"), "the shell"),
    **dict.fromkeys(("pydantic", "fastapi", "starlette", "litellm"), "a framework of the shell"),
}

BUILT_INS: dict[str, str] = {
    **dict.fromkeys(("open",), "files"),
    **dict.fromkeys(("print", "input", "breakpoint", "help"), "the terminal"),
    **dict.fromkeys(("eval", "exec", "compile", "__import__", "__builtins__", "__loader__", "__spec__"), "running code"),
    **dict.fromkeys(("globals",), "shared state"),
    **dict.fromkeys(("hash", "id"), "randomness (it differs between processes)"),
    **dict.fromkeys(("exit", "quit"), "processes"),
}

# Refused on anything but a module of the core itself, because the type of the receiver is not known.
ATTRIBUTES: dict[str, str] = {
    **dict.fromkeys(
        _words("""
        read_text read_bytes write_text write_bytes unlink mkdir rmdir touch iterdir glob rglob is_file is_dir is_symlink
        is_mount exists stat lstat chmod symlink_to hardlink_to readlink expanduser samefile cwd home open fromfile tofile
        """),
        "files",
    ),
    **dict.fromkeys(("utcnow", "utcfromtimestamp", "monotonic", "perf_counter"), "the clock"),
    **dict.fromkeys(("environ", "environb", "getenv", "putenv"), "the environment"),
    **dict.fromkeys(("__globals__", "__builtins__", "__subclasses__", "__loader__", "__import__", "__code__"), "running code"),
}
ATTRIBUTE_BEGINNINGS: dict[str, str] = {"sink_": "files", "write_": "files"}

# Refused as calls only: `event.now` is a field, `datetime.now()` a look at the clock.
CALLED_ATTRIBUTES: dict[str, str] = {"now": "the clock", "today": "the clock"}

# polars: readers touch files.
POLARS_BEGINNINGS: dict[str, str] = {"read_": "files", "scan_": "files", "Config": "shared state"}


class Required(NamedTuple):
    """The argument that keeps a method free of effects: by keyword, or as one of at least `positions` positional ones."""

    keyword: str
    positions: int
    effect: str


NEEDS_ARGUMENT = {
    "sample": Required("seed", 99, "randomness"),
    "shuffle": Required("seed", 1, "randomness"),
    "fromtimestamp": Required("tz", 2, "the machine's time zone"),
    "astimezone": Required("tz", 1, "the machine's time zone"),
}

STATEMENTS: dict[type[ast.AST], str] = {
    ast.Global: "shared state",
    ast.Await: "waiting",
    ast.AsyncFor: "waiting",
    ast.AsyncWith: "waiting",
    ast.AsyncFunctionDef: "waiting",
}

# What a module of the documented import names may contain besides imports, `__all__` and its docstring.
DOOR_FUNCTIONS = frozenset({"__getattr__", "__dir__"})


class Violation(NamedTuple):
    """One line that breaks a rule."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


def core_violations(source: str, file: str, module: str) -> list[Violation]:
    """Effects in the source text of one module of the core, whose dotted name is `module`, in order of line."""
    tree = ast.parse(source, file)
    package = module.rpartition(".")[0]
    names = _followed_names(tree, package)
    found: set[Violation] = set()
    own_hashes = _calls_in_own_hash(tree)
    for node in ast.walk(tree):
        if node in own_hashes:
            continue
        for rule in (_import_rule, _name_rule, _attribute_rule, _call_rule, _statement_rule):
            found |= {Violation(file, getattr(node, "lineno", 1), text) for text in rule(node, names, package)}
    return sorted(found, key=lambda violation: violation[1:])


def door_violations(source: str, file: str) -> list[Violation]:
    """Everything in a module of `osmosis_ai` that is not a docstring, an import of ours, `__all__` or a lazy `__getattr__`."""
    tree = ast.parse(source, file)
    found = []
    for position, node in enumerate(tree.body):
        match node:
            case ast.Expr(value=ast.Constant(value=str())) if position == 0:
                continue
            case ast.ImportFrom() | ast.Import() if all(_is_ours(name) for name, _ in _imported(node, "osmosis_ai")):
                continue
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if name.startswith("_"):
                continue
            case ast.FunctionDef(name=name) if name in DOOR_FUNCTIONS:
                continue
        found.append(Violation(file, node.lineno, "osmosis_ai only re-exports: move this to osmosis.pure or osmosis.shell"))
    return found


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in ("osmosis", "osmosis_ai", "typing", "__future__", "importlib")


def _imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, str]]:
    """(dotted origin, local name) of every name that an import statement binds."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, alias.asname or alias.name.split(".")[0]
        return
    parents = package.split(".")
    above = parents[: len(parents) - node.level + 1] if node.level else []
    origin = ".".join([*above, *([node.module] if node.module else [])])
    for alias in node.names:
        yield f"{origin}.{alias.name}", alias.asname or alias.name


def _followed_names(tree: ast.Module, package: str) -> dict[str, str]:
    """Local name -> dotted origin, through imports and through plain assignments of what was imported."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for origin, local in _imported(node, package):
                names[local] = origin if not isinstance(node, ast.Import) or origin == local else _bound(node, origin, local)
    assignments = list(_assignments(tree))
    before = -1
    while len(names) != before:
        before = len(names)
        for target, value in assignments:
            followed = _dotted(value, names)
            if followed is not None:
                names.setdefault(target, followed)
    return names


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                yield name, value


def _bound(node: ast.Import, origin: str, local: str) -> str:
    """`import a.b` binds `a`; `import a.b as c` binds `a.b`."""
    return origin if any(alias.asname == local for alias in node.names) else local


def _dotted(node: ast.AST, names: dict[str, str]) -> str | None:
    """The dotted origin of a name or attribute chain that begins with something imported."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, names)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def _calls_in_own_hash(tree: ast.Module) -> set[ast.AST]:
    """The name `hash` inside `__hash__`: a record must be able to be a dictionary key."""
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__hash__"]
    return {node for method in methods for node in ast.walk(method) if isinstance(node, ast.Name) and node.id == "hash"}


def _import_rule(node: ast.AST, _names: dict[str, str], package: str) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for origin, _local in _imported(node, package):
            yield from _origin_problem(origin)


def _origin_problem(origin: str) -> Iterator[str]:
    """What is wrong with reaching `origin` (`os.environ`, `osmosis.shell`, `pathlib.Path`) from the core."""
    top, _, rest = origin.partition(".")
    if top == "osmosis":
        if rest != "pure" and not rest.startswith("pure.") and rest != "__version__":
            yield f"{EFFECTS['osmosis.shell']}: osmosis.pure may not import {origin}"
    elif top not in EFFECT_FREE:
        yield f"{EFFECTS.get(top, 'not known to be free of effects')}: osmosis.pure may not import {top}"
    elif top == "polars":
        yield from _begins(rest, POLARS_BEGINNINGS, origin)
    else:
        for module, allowed in PARTLY_PURE.items():
            used = origin.removeprefix(f"{module}.").partition(".")[0]
            if origin.startswith(f"{module}.") and not _allowed(used, allowed):
                yield f"effects: osmosis.pure may use only {', '.join(allowed)} of {module}, not {origin}"


def _allowed(name: str, patterns: Iterable[str]) -> bool:
    return any(name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns)


def _begins(name: str, table: dict[str, str], shown: str) -> Iterator[str]:
    for beginning, effect in table.items():
        if name.startswith(beginning):
            yield f"{effect}: {shown}"


def _name_rule(node: ast.AST, names: dict[str, str], _package: str) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in BUILT_INS and node.id not in names:
        yield f"{BUILT_INS[node.id]}: {node.id}"


def _attribute_rule(node: ast.AST, names: dict[str, str], _package: str) -> Iterator[str]:
    if not isinstance(node, ast.Attribute):
        return
    origin = _dotted(node, names)
    if origin is not None:
        if origin.startswith("osmosis.pure."):
            return
        yield from _origin_problem(origin)
        if origin.split(".")[0] == "datetime" and node.attr in CALLED_ATTRIBUTES:
            yield f"{CALLED_ATTRIBUTES[node.attr]}: {origin}"
    yield from _attribute_problem(node.attr)


def _attribute_problem(name: str) -> Iterator[str]:
    if name in ATTRIBUTES:
        yield f"{ATTRIBUTES[name]}: .{name}"
    yield from _begins(name, ATTRIBUTE_BEGINNINGS, f".{name}")


def _call_rule(node: ast.AST, names: dict[str, str], _package: str) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    match node.func:
        case ast.Attribute(attr=name) if not (_dotted(node.func, names) or "").startswith("osmosis.pure."):
            if name in CALLED_ATTRIBUTES:
                yield f"{CALLED_ATTRIBUTES[name]}: .{name}()"
            required = NEEDS_ARGUMENT.get(name)
            given = {keyword.arg for keyword in node.keywords}
            if required and required.keyword not in given and len(node.args) < required.positions:
                yield f"{required.effect}: .{name}() without {required.keyword}"
        case ast.Name(id="getattr"):
            match node.args[1:]:
                case [ast.Constant(value=str() as name), *_]:
                    yield from _attribute_problem(name)
                    if name in CALLED_ATTRIBUTES:
                        yield f"{CALLED_ATTRIBUTES[name]}: getattr(..., {name!r})"


def _statement_rule(node: ast.AST, _names: dict[str, str], _package: str) -> Iterator[str]:
    if type(node) in STATEMENTS:
        yield f"{STATEMENTS[type(node)]}: {type(node).__name__}"


def check_folder(folder: Path, check: Callable[[str, str, str], list[Violation]]) -> list[Violation]:
    """Every violation in the modules below `folder`, a folder of the checkout."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(ROOT)
        parts = relative.with_suffix("").parts
        found += check(path.read_text(), relative.as_posix(), ".".join(parts))
    return found


def main() -> int:
    """Report violations; the exit code."""
    core = check_folder(ROOT / "osmosis" / "pure", core_violations)
    doors = check_folder(ROOT / "osmosis_ai", lambda source, file, _module: door_violations(source, file))
    for violation in core + doors:
        print(violation, file=sys.stderr)
    if core or doors:
        return 1
    print("osmosis.pure has no effects; osmosis_ai only re-exports.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

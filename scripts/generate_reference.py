"""Write the generated parts of the reference: the command tree, exit codes, envelopes, error codes, events, the keys of files.

    python -m scripts.generate_reference

`just golden` runs it. A page says where a part belongs by two comments, `<!-- begin NAME -->` and `<!-- end -->`; what stands
between them is replaced. Everything comes from where the product itself has it: cyclopts' tree, the tables of exit codes, the
records and their schemas, golden outputs as examples.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cyclopts import App
from cyclopts.argument import Argument

from osmosis.shell.cli.app import build_app
from osmosis.shell.cli.exit_codes import ExitCode
from scripts.generate_schemas import FOLDERS, schema
from scripts.python_reference import notes
from scripts.schema_commands import COMMANDS, EVENTS, FOLLOWED, Detail, Listing, Operation, operation_name
from scripts.schema_formats import Record

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GOLDEN = ROOT / "tests" / "golden"

MOST_KEYS = 12
"""Of an object inside another that are told where it stands; a larger one is named, and its schema says the rest."""

PART = re.compile(r"(?<=<!-- begin )([^>]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
_VALUES: Mapping[str, str] = {"Path": "PATH", "str": "TEXT", "int": "NUMBER", "float": "NUMBER"}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table. A bar inside a cell is written so that it does not end the cell."""
    lines = [list(head), ["---"] * len(list(head)), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


# Commands ----------------------------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command of the tree, in the order of its help."""
    app = build_app()
    return "\n".join(_command(path, command) for path, command in leaves(app))


def leaves(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """The commands below `app`, not its groups."""
    for name in app:
        if not name.startswith("-"):
            below = app[name]
            inner = list(leaves(below, (*path, name)))
            yield from inner or [((*path, name), below)]


def _command(path: tuple[str, ...], app: App) -> str:
    arguments = [
        argument for argument in app.assemble_argument_collection() if argument.parse and argument.parameter.show is not False
    ]
    name = " ".join(path)
    words = [f"osmosis {name}", *(_usage(argument) for argument in arguments if argument.required)]
    words += ["[OPTIONS]"] if any(not argument.required for argument in arguments) else []
    summary, _, rest = app.help.partition("\n")
    parts = [f"## osmosis {name}\n", f"{escaped(summary)}\n", f"```text\n{' '.join(words)}\n```\n"]
    parts += [f"{escaped(rest.strip())}\n"] if rest.strip() else []
    parts += [f"{table(('argument', 'meaning'), map(_row, arguments))}"] if arguments else []
    parts += [f"JSON: {_ending(name)}\n"]
    return "\n".join(parts)


def _usage(argument: Argument) -> str:
    return argument.name if argument.index is not None else f"{argument.name} {_value(argument)}"


def _row(argument: Argument) -> tuple[str, str]:
    names = [name for name in argument.names if not name.startswith("--no-")]
    shown = ", ".join(f"`{name}`" for name in names)
    value = "" if argument.index is not None else _value(argument)
    text = escaped(argument.parameter.help or "")
    return f"{shown} {value}".rstrip(), f"{text} Required." if argument.required else text


def _value(argument: Argument) -> str:
    if choices := argument.get_choices():
        return "\\|".join(choices)
    kinds = re.findall(r"\w+", str(argument.hint).replace("pathlib.", ""))
    named = [_VALUES[kind] for kind in kinds if kind in _VALUES]
    return named[0] if named else ""


def _ending(name: str) -> str:
    link = f"[schema](schemas/output/{operation_name(name)}.schema.json)"
    match COMMANDS[name]:
        case Operation(_, endings):
            codes = ", ".join(f"`{status}` (exit code {int(code)})" for status, code in endings.items())
            return f"an operation; `status` is {codes}. {link}."
        case Detail():
            return f"a detail. {link}."
        case Listing():
            return f"a list. {link}."


def escaped(text: str) -> str:
    """Help text as Markdown: options are code, and nothing in it is markup."""
    plain = re.sub(r"([<>*_\[\]{}`$])", r"\\\1", text)
    return re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", plain)


# Exit codes and envelopes ------------------------------------------------------------------------------------------------


def exit_codes() -> str:
    """What each exit code means."""
    said = notes("osmosis.shell.cli.exit_codes", "ExitCode")
    return table(("code", "meaning"), ((str(int(code)), said[code.name]) for code in ExitCode))


def endings() -> str:
    """How each command may end well or badly, beyond errors."""
    rows = []
    for name, kind in COMMANDS.items():
        how = {"success": ExitCode.SUCCESS} if not isinstance(kind, Operation) else kind.endings
        listed = ", ".join(f"`{status}` {int(code)}" for status, code in how.items())
        envelope = {Operation: "operation", Detail: "detail", Listing: "list"}[type(kind)]
        shown = listed if isinstance(kind, Operation) else "0"
        link = f"[{operation_name(name)}](schemas/output/{operation_name(name)}.schema.json)"
        rows.append((f"`osmosis {name}`", envelope, shown, link))
    return table(("command", "envelope", "status and exit code", "schema"), rows)


def error_codes() -> str:
    """What each code of an error means."""
    return table(("code", "meaning"), ((f"`{code}`", text) for code, text in notes("osmosis.pure.errors", "ErrorCode").items()))


def told(events: Mapping[str, Record]) -> Callable[[], str]:
    """Each of these events and its data."""

    def shown() -> str:
        rows = []
        for name, record in events.items():
            keys = ", ".join(f"`{key}`" for key in record.__struct_fields__)
            about = re.sub(r"^`data` of `[^`]+`: ", "", (record.__doc__ or "").split("\n\n")[0])
            rows.append((f"`{name}`", about[:1].upper() + about[1:], keys))
        return table(("event", "data", "keys"), rows)

    return shown


def example(golden: str) -> Callable[[], str]:
    """A golden output, laid out for reading."""

    def shown() -> str:
        line = next(line for line in (GOLDEN / golden).read_text().split("\n") if line.startswith("{"))
        return f"```json\n{json.dumps(json.loads(line), indent=2, ensure_ascii=False)}\n```\n"

    return shown


# Files -------------------------------------------------------------------------------------------------------------------


def keys(folder: str, name: str) -> Callable[[], str]:
    """The keys of a format: a table for each record that a document may be, with the records inside opened once."""

    def shown() -> str:
        [found] = [made for made in FOLDERS[folder] if made.name == name]
        drawn = schema(folder, found)
        roots = [drawn] if "properties" in drawn or "$ref" in drawn else drawn["anyOf"]
        parts = [f"[Schema](schemas/{folder}/{name}.schema.json).\n"]
        for root in roots:
            record = _resolved(root, drawn)
            if len(roots) > 1:
                parts.append(f"{record['description']}\n")
            rows = list(_key_rows(record, drawn, ()))
            parts.append(table(("key", "holds"), rows))
        return "\n".join(parts)

    return shown


def _resolved(part: Mapping[str, Any], drawn: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in part:
        return dict(drawn["$defs"][part["$ref"].rpartition("/")[2]])
    return dict(part)


def _key_rows(record: Mapping[str, Any], drawn: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key, part in record["properties"].items():
        inner = _resolved(part, drawn)
        always = "" if key in record.get("required", ()) else "; may be absent"
        label = f"`{'.'.join((*path, key))}`"
        if "properties" in inner and len(path) < 1:
            yield label, f"object{always}"
            yield from _key_rows(inner, drawn, (*path, key))
        else:
            yield label, f"{_words(part, drawn)}{always}"


_KINDS: Mapping[str, str] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "object": "object",
}


def _words(part: Mapping[str, Any], drawn: Mapping[str, Any]) -> str:
    """What a schema allows, in a few words."""
    if "$ref" in part:
        named = _resolved(part, drawn)
        if "properties" not in named:
            return _words(named, drawn)
        inner = list(named["properties"])
        known = f": {', '.join(f'`{key}`' for key in inner)}" if len(inner) <= MOST_KEYS else f" `{named['title']}`"
        return f"object{known}"
    if "enum" in part:
        return " or ".join(f"`{json.dumps(value) if not isinstance(value, str) else value}`" for value in part["enum"])
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_words(choice, drawn) for choice in part["anyOf"]))
    if part.get("type") == "array":
        places = part.get("prefixItems")
        if places:
            return f"[{', '.join(_words(place, drawn) for place in places)}]"
        items = part.get("items")
        return f"array of {_words(items, drawn)}" if isinstance(items, dict) and items else "array"
    return _KINDS.get(str(part.get("type")), "anything")


# Pages -------------------------------------------------------------------------------------------------------------------

PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "exit codes": exit_codes,
    "endings": endings,
    "error codes": error_codes,
    "events": told(EVENTS),
    "events of a log": told(FOLLOWED),
    "example of an operation": example("cli/runs_open.json"),
    "example of a detail": example("cli/runs_info_finished.json"),
    "example of a list": example("cli/runs_list_empty.json"),
    "example of an error": example("cli/error.json.txt"),
    "example of an event": example("cli/events.jsonl"),
    **{f"keys of {made.name}": keys("files", made.name) for made in FOLDERS["files"]},
}


def pages() -> Iterator[tuple[Path, str]]:
    """Each page with generated parts, and its text as it must be."""
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text()
        if PART.search(text):
            yield path, PART.sub(lambda part: f"{part[1]}{part[2]}\n{PARTS[part[1]]()}\n", text)


def main() -> int:
    """Write what has changed; the exit code."""
    for path, text in pages():
        if path.read_text() != text:
            path.write_text(text)
            print(f"{path.relative_to(ROOT)}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())

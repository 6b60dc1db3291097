"""Write `docs/schemas/`: JSON Schema 2020-12 of every file format and every JSON output, drawn from the product's own records.

    python -m scripts.generate_schemas

`just golden` runs it. The schemas say what this version writes: a key that is always written is required, a key that is left
out when it has nothing to say is never null. Readers should ignore keys that they do not know, for later versions add some.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from osmosis.pure.index import IndexRow
from scripts.schema_commands import COMMANDS, STREAM, envelope
from scripts.schema_formats import FILES, MESSAGES, Format, Record

SCHEMAS = Path(__file__).resolve().parent.parent / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SPARSE = {IndexRow}
"""Records whose encoder leaves out what says nothing, without msgspec's `omit_defaults`."""

FOLDERS: Mapping[str, tuple[Format, ...]] = {
    "files": FILES,
    "output": (*map(envelope, COMMANDS), *STREAM),
    "protocol": MESSAGES,
}


def schema(folder: str, made: Format) -> dict[str, Any]:
    """The schema of a format as a JSON document."""
    head = {"$schema": DIALECT, "$id": f"urn:osmosis:{folder}:{made.name}", "title": made.title}
    if made.schema is not None:
        return head | dict(made.schema)
    references, parts = msgspec.json.schema_components(made.records, ref_template="#/$defs/{name}")
    known = {record.__name__: record for record in _records(made.records)}
    if unnamed := known.keys() - parts.keys():
        raise ValueError(f"{made.name}: two records are called {', '.join(sorted(unnamed))}")
    for name, record in known.items():
        _state_what_is_written(parts[name], record)
    [first, *others] = references
    return head | ({"anyOf": list(references)} if others else dict(first)) | {"$defs": dict(sorted(parts.items()))}


def _records(records: tuple[Record, ...]) -> Iterator[Record]:
    """Every record that `records` are made of, each once."""
    seen: set[Record] = set()
    pending: list[Any] = list(inspect.multi_type_info(records))
    while pending:
        info = pending.pop()
        if isinstance(info, inspect.StructType):
            if info.cls in seen:
                continue
            seen.add(info.cls)
            yield info.cls
            pending += [field.type for field in info.fields]
        elif isinstance(info, inspect.Type):
            pending += [part for name in info.__struct_fields__ for part in _parts(getattr(info, name))]


def _parts(value: object) -> Iterator[object]:
    yield from value if isinstance(value, tuple) else (value,)


def _state_what_is_written(part: dict[str, Any], record: Record) -> None:
    """Make the schema of `record` say what is written, where msgspec says what would be read."""
    if "properties" not in part:  # a record that travels as an array
        return
    sparse = record in _SPARSE or record.__struct_config__.omit_defaults
    always = set()
    for field in msgspec.structs.fields(record):
        stated = part["properties"][field.encode_name]
        left_out = sparse and (field.default is not msgspec.NODEFAULT)
        if left_out and field.default is None:
            _never_null(stated)
        if not left_out and field.default is not msgspec.UNSET:
            always.add(field.encode_name)
            stated.pop("default", None)
    part["required"] = [name for name in part["properties"] if name in always or name in part.get("required", ())]


def _never_null(stated: dict[str, Any]) -> None:
    stated.pop("default", None)
    choices = [choice for choice in stated.pop("anyOf", ()) if choice != {"type": "null"}]
    stated.update(choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})


def documents() -> Iterator[tuple[str, bytes]]:
    """Path below `docs/schemas/` and bytes of each schema."""
    for folder, formats in FOLDERS.items():
        for made in formats:
            text = json.dumps(schema(folder, made), indent=2, ensure_ascii=False)
            yield f"{folder}/{made.name}.schema.json", f"{text}\n".encode()


def main() -> int:
    """Write what has changed and take away what is gone; the exit code."""
    wanted = dict(documents())
    present = {path.relative_to(SCHEMAS).as_posix(): path.read_bytes() for path in SCHEMAS.rglob("*.json")}
    changed = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    for name in changed:
        path = SCHEMAS / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted[name])
        else:
            path.unlink()
    print(f"docs/schemas: {len(wanted)} schemas, {len(changed)} of them changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

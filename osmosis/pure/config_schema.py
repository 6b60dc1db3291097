"""The eval config as JSON Schema 2020-12, for editors that check TOML as it is typed (`docs/file-formats.md`).

It is made of the tables by which `config` reads. It accepts all that `config` accepts; what it cannot say (a path that leaves
its directory, a name that is both a secret and plain) `config` still refuses.
"""

from __future__ import annotations

from typing import Any

from osmosis.pure.config_values import ENV_NAME, REQUIRED, RESERVED_PREFIX, VALUES


def config_schema() -> dict[str, Any]:
    """The schema of the document that a TOML parser makes of `configs/eval/NAME.toml`."""
    sections: dict[str, Any] = {name: _section(name) for name in VALUES}
    sections["experiment"]["not"] = {"required": ["branch", "commit_sha"]}
    sections["env"] = {
        "type": "object",
        "propertyNames": {"pattern": f"^(?!{RESERVED_PREFIX}){ENV_NAME}$"},
        "additionalProperties": {"type": "string", "pattern": r"^[^\u0000]*$"},
    }
    sections["advanced"] = {"type": "object"}
    return {
        "type": "object",
        "properties": sections,
        "required": ["experiment", "secrets"],
        "additionalProperties": False,
    }


def _section(name: str) -> dict[str, Any]:
    properties = {key: dict(value.schema) for key, value in VALUES[name].items()}
    required = list(REQUIRED.get(name, ()))
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

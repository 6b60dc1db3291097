"""Where the secrets of a run come from, and which of them are missing (E7, E8, ruling 16; `eval_local.md` section 9).

For each name in `[secrets].required`: the secrets file, even if the value there is empty; then the environment, if the value is
not empty; then a question to the person. Secrets that a platform stores never count for a local run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from osmosis.pure.dotenv import Secret
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem


class SecretSearch(msgspec.Struct, frozen=True):
    """What the file and the environment hold. `found` and `missing` split the required names, in config order.

    `extra` is what else the file holds: provider keys and endpoints, which win over the environment like everything in it.
    """

    found: tuple[Secret, ...]
    missing: tuple[str, ...]
    extra: tuple[Secret, ...]


class RunSecrets(msgspec.Struct, frozen=True):
    """The secrets of a run. All are placed in the environment while it lasts; `required` alone are for the rollout."""

    required: tuple[Secret, ...]
    extra: tuple[Secret, ...] = ()

    @property
    def placed(self) -> tuple[Secret, ...]:
        """All of them."""
        return self.required + self.extra


def search_secrets(required: Iterable[str], file: Iterable[Secret], environment: Mapping[str, str]) -> SecretSearch:
    """Look for each required name in the file, then in the environment."""
    in_file = {secret.name: secret.value for secret in file}
    names = tuple(dict.fromkeys(required))
    from_environment = {name: environment[name] for name in names if environment.get(name)}
    known = from_environment | in_file
    return SecretSearch(
        found=tuple(Secret(name, known[name]) for name in names if name in known),
        missing=tuple(name for name in names if name not in known),
        extra=tuple(Secret(name, value) for name, value in in_file.items() if name not in names),
    )


def missing_secrets(names: Iterable[str]) -> OsmosisError:
    """The one error for all names that no source knows."""
    missing = list(names)
    return OsmosisError(
        "A value is missing for " + ("a required secret." if len(missing) == 1 else f"{len(missing)} required secrets."),
        code=ErrorCode.INTERACTIVE_REQUIRED,
        problems=[Problem("", name, key="secrets.required") for name in missing],
        hint="Set them in the environment, or pass --secrets-file FILE (- for standard input) with NAME=value lines.",
        details={"missing": missing, "flags": ["--secrets-file"]},
    )


def values_to_redact(secrets: RunSecrets) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(configured, other) values, as `osmosis.pure.secret_forms.secret_values` takes them.

    An extra value that is a plain URL, without credentials in it, is an endpoint and no secret: errors must be able to name it.
    """
    endpoints = ("http://", "https://")
    other = (secret.value for secret in secrets.extra if not secret.value.startswith(endpoints) or "@" in secret.value)
    return tuple(secret.value for secret in secrets.required), tuple(other)

"""Read the secrets file, ask for what is missing, and hold the values in the environment while a run lasts (E7)."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from osmosis.pure.dotenv import Secret, parse_dotenv
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.secret_resolution import RunSecrets, missing_secrets, search_secrets

STANDARD_INPUT = "-"

_SIZE_LIMIT = 1 << 20


def read_secrets_file(path: str, standard_input: BinaryIO | None = None) -> tuple[Secret, ...]:
    """The variables in the file `path`; `-` reads standard input to its end.

    Raises OsmosisError if the file is missing, unreadable, larger than 1 MiB, or not of NAME=value lines.
    """
    label = "standard input" if path == STANDARD_INPUT else path
    try:
        data = _read(path, standard_input)
    except OSError as error:
        raise OsmosisError(
            f"The secrets file {label} cannot be read.",
            code=ErrorCode.NOT_FOUND if isinstance(error, FileNotFoundError) else ErrorCode.VALIDATION,
            problems=[Problem(label, error.strerror or str(error))],
            hint="Pass an existing file of NAME=value lines to --secrets-file, or - for standard input.",
        ) from None
    if len(data) > _SIZE_LIMIT:
        raise OsmosisError(
            f"The secrets file {label} is too large.",
            problems=[Problem(label, f"more than {_SIZE_LIMIT} bytes")],
            hint="It should hold NAME=value lines only.",
        )
    return parse_dotenv(data, label)


def resolve_secrets(
    required: Iterable[str],
    file: Iterable[Secret],
    environment: Mapping[str, str],
    prompt: Callable[[str], str | None] | None = None,
) -> RunSecrets:
    """A value for every required name: from the file, else a non-empty one from the environment, else from `prompt(name)`.

    `prompt` is None where nobody can be asked; it gives None or "" for no answer. Raises one OsmosisError
    (INTERACTIVE_REQUIRED) that lists all missing names.
    """
    search = search_secrets(required, file, environment)
    answers = {name: answer for name in search.missing if prompt is not None and (answer := prompt(name))}
    unanswered = [name for name in search.missing if name not in answers]
    if unanswered:
        raise missing_secrets(unanswered)
    values = {secret.name: secret.value for secret in search.found} | answers
    return RunSecrets(tuple(Secret(name, values[name]) for name in dict.fromkeys(required)), search.extra)


@contextmanager
def placed_in_environment(secrets: Iterable[Secret], environment: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Hold the values in the environment, and put back what was there before on every way out."""
    values = {secret.name: secret.value for secret in secrets}
    before = {name: environment.get(name) for name in values}
    try:
        environment.update(values)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value


def _read(path: str, standard_input: BinaryIO | None) -> bytes:
    if path == STANDARD_INPUT:
        return (standard_input or sys.stdin.buffer).read(_SIZE_LIMIT + 1)
    file = Path(path).expanduser()
    if stat.S_ISDIR(file.stat().st_mode):
        raise IsADirectoryError(None, "Is a directory")
    with file.open("rb") as stream:
        return stream.read(_SIZE_LIMIT + 1)

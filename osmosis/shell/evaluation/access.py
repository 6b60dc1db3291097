"""What a run needs to be let in: its secrets file, its required secrets, its provider's key (E7, ruling 16).

Looked at before anybody is told that something will run, and again when it does, since a person may be asked in between.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence

from osmosis.pure.dotenv import Secret
from osmosis.pure.errors import OsmosisError
from osmosis.pure.providers import Endpoint, resolve
from osmosis.pure.secret_resolution import missing_secrets
from osmosis.shell.evaluation.credentials import STANDARD_INPUT, read_secrets_file
from osmosis.shell.evaluation.request import RunRequest


def secrets_of(request: RunRequest) -> tuple[Secret, ...]:
    """What `--secrets-file` holds; nothing without one. Standard input can be read once. Raises like `read_secrets_file`."""
    given = request.secrets_file
    if not given:
        return ()
    return read_secrets_file(given if given == STANDARD_INPUT else str(request.working_directory / os.path.expanduser(given)))


def check_secrets(missing: Sequence[str]) -> None:
    """Raise OsmosisError (INTERACTIVE_REQUIRED) with all required secrets that neither file nor environment knows."""
    if missing:
        raise missing_secrets(missing)


def check_model(
    model_path: str, environment: Mapping[str, str], missing: Container[str], *, replays: bool, holds: bool
) -> None:
    """Raise OsmosisError where the model of a run cannot be called for another reason than that a `missing` secret is its key.

    A missing secret has been told of, or a person will be asked for it.
    """
    try:
        endpoint_for(model_path, environment, replays=replays, holds=holds)
    except OsmosisError as error:
        if not error.problems or any(problem.key not in missing for problem in error.problems):
            raise


def endpoint_for(model_path: str, environment: Mapping[str, str], *, replays: bool, holds: bool) -> Endpoint:
    """Where the model of a run is, and its key. `replays`: a cassette answers everything, so none is needed; `holds`: one may.

    Raises OsmosisError without a key.
    """
    try:
        return resolve(model_path, environment, replay=replays)
    except OsmosisError:
        if not holds:
            raise
        # The cassette may hold everything; the first call that it does not hold will say what is missing.
        return resolve(model_path, environment, replay=True)

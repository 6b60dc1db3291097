"""Reads everything that a run depends on, before anything is created: config, dataset, source tree, cassette, git.

Independent inputs are all looked at, so that a person hears of every problem at once.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from osmosis import __version__
from osmosis.pure import cassette as cassettes
from osmosis.pure.cassette import Cassette
from osmosis.pure.config import EvalConfig, decode_config
from osmosis.pure.digest import SourceTree
from osmosis.pure.dotenv import Secret
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.known_dataset import KnownDataset, known_dataset
from osmosis.pure.names import NAME_COUNT, generate, validate_name
from osmosis.pure.plan import DatasetIdentity, Provenance, RunInputs, check_size, decode_manifest, run_inputs
from osmosis.pure.selection import parse_rows
from osmosis.pure.tunnel import check_flags
from osmosis.shell.bridge.cassette_file import load_cassette
from osmosis.shell.evaluation.dataset_file import LoadedDataset, read_dataset, recognise_dataset
from osmosis.shell.evaluation.request import RunRequest
from osmosis.shell.evaluation.run_directory import RunDirectory, refuse_symlink
from osmosis.shell.evaluation.source_tree import scan_source_tree
from osmosis.shell.evaluation.workspace import DEFAULT_OUTPUT, ROLLOUTS_DIRECTORY, git_state, locate_config

_T = TypeVar("_T")


class Preparation(msgspec.Struct, frozen=True):
    """A run's inputs, read and checked. All paths are absolute.

    `cassette` answers every model call (`--replay`); `held` answers what it holds (`--replay-or-record`), and as it grows with
    the run, it is no part of the run's lock. `known_provenance` is None where the run had its own already.
    `file_secrets` is what `--secrets-file` holds, once it was asked for: a run that is finished needs none.
    """

    request: RunRequest
    workspace: Path
    config: EvalConfig
    project: Path
    dataset: LoadedDataset
    sources: SourceTree
    cassette: Cassette | None
    held: Cassette | None
    inputs: RunInputs
    known_provenance: Provenance | None
    config_path: Path
    directory: RunDirectory
    file_secrets: tuple[Secret, ...] | None = None

    @property
    def total_items(self) -> int:
        """How many work items the run has."""
        return len(self.dataset.rows) * self.config.evaluation.n

    @property
    def provenance(self) -> Provenance:
        """Where a new run comes from."""
        return self.known_provenance or _provenance(self.config, self.config_path, self.workspace, self.dataset)


def prepare(request: RunRequest, *, can_ask: bool) -> Preparation:
    """Read and check every input of `request`. Raises OsmosisError with all problems that were found; creates nothing.

    The credentials of a run that exists already are looked at when it turns out to have work left (`with_access`). `can_ask`:
    a person can be asked for required secrets.
    """
    workspace, config_path = locate_config(request.config_path, request.working_directory)
    label = _relative(config_path, request.working_directory)
    config = decode_config(config_path.read_bytes(), label)
    project = workspace / ROLLOUTS_DIRECTORY / config.experiment.rollout
    output_root = _output_root(request, workspace)

    checks = _Checks()
    checks.run(lambda: check_flags(request.tunnel, request.advertise_url, request.listener_port, request.listener_host))
    name = checks.run(lambda: validate_name(request.name) if request.name else _unused_name(output_root))
    known = _known_dataset(request, output_root)
    dataset = checks.run(lambda: _read_dataset(request, config, known))
    if dataset is not None:
        checks.run(lambda: check_size(len(dataset.rows), config.evaluation.n, label))
    sources = checks.run(lambda: _scan(project, config.experiment.entrypoint, output_root, label))
    replay = request.working_directory / request.replay.expanduser() if request.replay else None
    cassette = checks.run(lambda: load_cassette(replay)) if replay else None
    held = checks.run(lambda: _held(request))
    exists = name is not None and RunDirectory(output_root, name).manifest.exists() and not request.fresh
    file_secrets = None if exists else _check_access(checks, request, config, holds=held is not None, can_ask=can_ask)
    checks.run(lambda: _check_record_target(request.record or request.replay_or_record, request.working_directory))
    checks.raise_problems()
    assert name is not None
    assert dataset is not None
    assert sources is not None

    directory = RunDirectory(output_root, name)
    refuse_symlink(directory)
    identity = DatasetIdentity(dataset.sha256, str(dataset.selected), dataset.fingerprint)
    return Preparation(
        request=request,
        workspace=workspace,
        config=config,
        project=project,
        dataset=dataset,
        sources=sources,
        cassette=cassette,
        held=held,
        inputs=run_inputs(config, identity, sources.digest, cassettes.fingerprint(cassette) if cassette else None),
        known_provenance=None if exists else _provenance(config, config_path, workspace, dataset),
        config_path=config_path,
        directory=directory,
        file_secrets=file_secrets,
    )


def with_access(preparation: Preparation, *, can_ask: bool) -> Preparation:
    """`preparation` with its credentials checked, before anybody is told that something will run. Raises OsmosisError."""
    if preparation.file_secrets is not None:
        return preparation
    checks = _Checks()
    holds = preparation.held is not None
    file_secrets = _check_access(checks, preparation.request, preparation.config, holds=holds, can_ask=can_ask)
    checks.raise_problems()
    return msgspec.structs.replace(preparation, file_secrets=file_secrets)


def _check_access(
    checks: _Checks, request: RunRequest, config: EvalConfig, *, holds: bool, can_ask: bool
) -> tuple[Secret, ...] | None:
    """The secrets file, the required secrets that nobody can be asked for, and the provider's key."""
    # Brings the table of providers, which a look at a finished run does without.
    from osmosis.pure.secret_resolution import search_secrets  # noqa: PLC0415
    from osmosis.shell.evaluation.access import check_model, check_secrets, secrets_of  # noqa: PLC0415

    found = checks.run(lambda: secrets_of(request))
    if found is None:
        return None
    environment = {**os.environ, **{secret.name: secret.value for secret in found}}
    missing = search_secrets(config.secret_names, found, environment).missing
    if not can_ask:
        checks.run(lambda: check_secrets(missing))
    replays, model = request.replay is not None, config.experiment.model_path
    checks.run(lambda: check_model(model, environment, missing, replays=replays, holds=holds))
    return found


class _Checks:
    """Runs independent checks and raises what they raised as one error."""

    def __init__(self) -> None:
        self._errors: list[OsmosisError] = []

    def run(self, check: Callable[[], _T]) -> _T | None:
        try:
            return check()
        except OsmosisError as error:
            self._errors.append(error)
            return None

    def raise_problems(self) -> None:
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            problems = [problem for error in self._errors for problem in (Problem("", error.message), *error.problems)]
            hints = dict.fromkeys(error.hint for error in self._errors if error.hint)
            raise OsmosisError(
                f"{len(self._errors)} inputs of this run need attention.", problems=problems, hint="\n".join(hints) or None
            )


def _relative(path: Path, base: Path) -> str:
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)


def _output_root(request: RunRequest, workspace: Path) -> Path:
    if request.output is None:
        return workspace / DEFAULT_OUTPUT
    return (request.working_directory / request.output.expanduser()).resolve()


def _unused_name(output_root: Path) -> str:
    names = (generate(secrets.randbelow(NAME_COUNT)) for _ in range(100))
    name = next((name for name in names if not (output_root / name).exists()), None)
    if name is None:
        raise OsmosisError("No unused run name was found in 100 tries.", hint="Name the run with --name.")
    return name


def _known_dataset(request: RunRequest, output_root: Path) -> KnownDataset | None:
    """What the named run, if there is one to continue, says of its dataset. What is wrong with it is told later."""
    if not request.name or request.fresh:
        return None
    try:
        path = RunDirectory(output_root, validate_name(request.name)).manifest
        return known_dataset(decode_manifest(path.read_bytes(), str(path)))
    except (OSError, OsmosisError):
        return None


def _read_dataset(request: RunRequest, config: EvalConfig, known: KnownDataset | None) -> LoadedDataset:
    if request.dataset_file is None:
        raise OsmosisError(
            f"The dataset {config.experiment.dataset!r} lies on a platform, which this version cannot reach.",
            hint="Name a local file with --dataset-file PATH.",
        )
    rows = parse_rows(request.rows) if request.rows else None
    path = request.working_directory / request.dataset_file.expanduser()
    limit = config.evaluation.limit
    loaded = recognise_dataset(path, known, rows=rows, limit=limit) if known else None
    loaded = loaded or read_dataset(path, rows=rows, limit=limit)
    return msgspec.structs.replace(loaded, label=str(request.dataset_file))


def _scan(project: Path, entrypoint: str, output_root: Path, label: str) -> SourceTree:
    tree = scan_source_tree(project, output_root)
    missing = [name for name in (entrypoint, "pyproject.toml") if not (project / name).is_file()]
    if missing:
        raise OsmosisError(
            f"The rollout {project.name} is incomplete.",
            code=ErrorCode.NOT_FOUND,
            problems=[Problem(str(project / name), "no such file") for name in missing],
            hint=f"A rollout has an entrypoint (named in {label}) and a pyproject.toml with its dependencies.",
        )
    return tree


def _held(request: RunRequest) -> Cassette | None:
    if request.replay_or_record is None:
        return None
    path = request.working_directory / request.replay_or_record.expanduser()
    return load_cassette(path) if path.is_file() and path.stat().st_size else None


def _check_record_target(record: Path | None, working_directory: Path) -> None:
    if record is None:
        return
    target = working_directory / record.expanduser()
    if target.is_dir() or not target.parent.is_dir():
        raise OsmosisError(
            f"A cassette cannot be recorded to {record}.",
            problems=[Problem(str(target), "is a directory" if target.is_dir() else "its directory does not exist")],
            hint="Name a file in a directory that exists.",
        )


def _provenance(config: EvalConfig, config_path: Path, workspace: Path, dataset: LoadedDataset) -> Provenance:
    git = git_state(workspace)
    return Provenance(
        sdk_version=__version__,
        dataset_name=config.experiment.dataset,
        total_dataset_rows=dataset.total_rows,
        config_branch=config.experiment.branch,
        config_commit_sha=config.experiment.commit_sha,
        config_path=config_path.relative_to(workspace).as_posix(),
        advanced=config.advanced or None,
        git_head=git.head,
        git_branch=git.branch,
        git_dirty=git.dirty,
    )

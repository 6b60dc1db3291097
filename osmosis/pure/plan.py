"""What a run is: its inputs, its manifest, its work items, and what changed since last time (E19, E22, E23; rulings 3 to 5).

The manifest is written once, when the run is created; its bytes bind the run's identity. Its `inputs` are the lock: a named run
continues only with equal inputs, and a refusal names the groups that changed and what changed in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from osmosis.pure.canonical import decode_json, pretty_json
from osmosis.pure.config import EvalConfig
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.journal import JOURNAL_FORMAT, WorkItem
from osmosis.pure.protocol import PROTOCOL_VERSION
from osmosis.pure.selection import RowSelection, parse_rows

MANIFEST_SCHEMA = 1
DATASET_NORMALIZATION = 1
ABSENT = "(absent)"
MOST_WORK_ITEMS = 10_000_000
"""Of one run. Its items are held in memory, so a slip in `n` would otherwise use that up before a word is said."""


class DatasetIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """`selected_source_rows` is the rendered selector (`0-8`, `1-3,7`); `fingerprint` the xxh3-128 digest of the bytes."""

    sha256: str
    selected_source_rows: str
    fingerprint: str | None = None


class RolloutIdentity(msgspec.Struct, frozen=True):
    """The rollout's name, its entrypoint file, and the digest of its source tree."""

    name: str
    entrypoint: str
    source_digest: str


class Timeouts(msgspec.Struct, frozen=True):
    """Limits in seconds; None when the config leaves them out (the one place of the manifest where null is written)."""

    agent_timeout_sec: float | None
    grader_timeout_sec: float | None


class Versions(msgspec.Struct, frozen=True):
    """Versions of the formats that a run's results depend on."""

    rollout_protocol: str = PROTOCOL_VERSION
    dataset_normalization: int = DATASET_NORMALIZATION
    state_schema: int = JOURNAL_FORMAT


class RunInputs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that decides a run's results, and nothing else. The keys are the groups that a refusal names.

    `cassette` is the digest of the recorded model calls under `--replay` (ruling 21); `regraded_from` the id of the run whose
    stored samples `eval regrade` graded. Where the model is reached, and with
    which key, is provenance and not part of the lock (ruling 16).
    """

    model_path: str
    dataset: DatasetIdentity
    n: int
    pass_threshold: float
    rollout: RolloutIdentity
    env: dict[str, str]
    secret_names: tuple[str, ...]
    timeouts: Timeouts
    versions: Versions = msgspec.field(default_factory=Versions)
    cassette: str | None = None
    regraded_from: str | None = None


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a run came from, as far as it is known. Never compared.

    `dataset_name` is the config's name for the dataset, `total_dataset_rows` the length of its file: projections show both.
    """

    sdk_version: str
    dataset_name: str
    total_dataset_rows: int
    config_branch: str | None = None
    config_commit_sha: str | None = None
    config_path: str | None = None
    endpoint: str | None = None
    advanced: dict[str, Any] | None = None
    git_head: str | None = None
    git_branch: str | None = None
    git_dirty: bool | None = None
    parent_run_name: str | None = None
    parent_run_id: str | None = None


class Manifest(msgspec.Struct, frozen=True):
    """`manifest.json`. `inputs` stays as read, so that a manifest of another version compares key by key."""

    schema_version: int
    local_run_id: str
    run_name: str
    created_at: str
    inputs: dict[str, Any]
    provenance: dict[str, Any]


def run_inputs(
    config: EvalConfig, dataset: DatasetIdentity, source_digest: str, cassette: str | None, versions: Versions | None = None
) -> RunInputs:
    """The lock of a run: what the config, the dataset, the rollout's source and the cassette say together."""
    evaluation = config.evaluation
    return RunInputs(
        model_path=config.experiment.model_path,
        dataset=dataset,
        n=evaluation.n,
        pass_threshold=evaluation.pass_threshold,
        rollout=RolloutIdentity(config.experiment.rollout, config.experiment.entrypoint, source_digest),
        env=dict(sorted(config.env.items())),
        secret_names=tuple(sorted(config.secret_names)),
        timeouts=Timeouts(evaluation.agent_workflow_timeout_s, evaluation.grader_timeout_s),
        versions=versions or Versions(),
        cassette=cassette,
    )


def as_object(inputs: RunInputs) -> dict[str, Any]:
    """The inputs as the JSON object that the manifest holds. `env`, `secret_names` and `versions` stand even when empty."""
    required = {"env": inputs.env, "secret_names": list(inputs.secret_names), "versions": inputs.versions}
    values = msgspec.to_builtins(inputs) | {key: msgspec.to_builtins(value) for key, value in required.items()}
    order = [field for field in RunInputs.__struct_fields__ if field in values]
    return {key: values[key] for key in order}


def new_manifest(*, inputs: RunInputs, provenance: Provenance, local_run_id: str, run_name: str, created_at: str) -> Manifest:
    """The manifest of a run that begins now. `local_run_id` is 32 lowercase hex digits; `created_at` ISO 8601 UTC."""
    return Manifest(MANIFEST_SCHEMA, local_run_id, run_name, created_at, as_object(inputs), msgspec.to_builtins(provenance))


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of `manifest.json`: pretty JSON with a final newline."""
    return pretty_json(msgspec.structs.asdict(manifest))


def decode_manifest(data: bytes, label: str) -> Manifest:
    """Read a manifest. Raises OsmosisError when it is not one, or of a schema this version does not know."""
    try:
        value = decode_json(data)
        schema = value.get("schema_version") if isinstance(value, dict) else None
        if isinstance(schema, int) and schema != MANIFEST_SCHEMA:
            raise OsmosisError(
                f"{label} has schema version {schema}; this version of Osmosis reads {MANIFEST_SCHEMA}.",
                hint="Use the version of Osmosis that made the run, a new --name, or --fresh.",
            )
        return msgspec.convert(value, Manifest)
    except ValueError as error:
        raise OsmosisError(
            f"{label} is not a run manifest.",
            problems=[Problem(label, str(error))],
            hint="Restore the file, use a new --name, or start over with --fresh (the directory is archived, not deleted).",
        ) from None


class Change(msgspec.Struct, frozen=True):
    """One value of the lock that differs: its group, its path inside the group, and both values as people read them."""

    group: str
    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}: {self.before} -> {self.after}"


def compare_inputs(before: Mapping[str, Any], after: RunInputs) -> tuple[Change, ...]:
    """What changed between a manifest's inputs and today's, sorted by group and path; empty when nothing did.

    A key that the older manifest lacks is not a change. Dataset bytes are compared by fingerprint when both sides have one,
    else by SHA-256 (ruling 4).
    """
    now = as_object(after)
    changes: list[Change] = []
    for group in sorted(now.keys() | _ABSENCE_COUNTS):
        old, new = before.get(group), now.get(group)
        if group == "dataset" and isinstance(old, dict) and isinstance(new, dict):
            spare = "sha256" if "fingerprint" in old and "fingerprint" in new else "fingerprint"
            old, new = ({key: value for key, value in side.items() if key != spare} for side in (old, new))
        if group in before or group in _ABSENCE_COUNTS:
            changes += _differences(group, group, old, new)
    return tuple(changes)


_ABSENCE_COUNTS = frozenset({"cassette", "regraded_from"})
"""A run without a cassette that is now replayed, or a regraded one that is now run (or the other way round), hears another
model."""


def _differences(group: str, path: str, old: Any, new: Any) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        # Inside `env` a missing name is a change; elsewhere a key that an older manifest lacks is not.
        keys = old.keys() | new.keys() if group == "env" else old.keys()
        for key in sorted(keys):
            yield from _differences(group, f"{path}.{key}", old.get(key), new.get(key))
    elif old != new:
        yield Change(group, path, _shown(old), _shown(new))


def _shown(value: Any) -> str:
    return ABSENT if value is None else str(value)


def work_items(selected_rows: int, n: int) -> Iterator[WorkItem]:
    """Every work item in dispatch order: rows as selected, runs of a row together."""
    return (WorkItem(row, run) for row in range(selected_rows) for run in range(n))


def check_size(selected_rows: int, n: int, label: str) -> None:
    """Raise OsmosisError, naming the config `label`, if a run of `n` runs of each row has more items than one run may have."""
    if selected_rows * n > MOST_WORK_ITEMS:
        raise OsmosisError(
            f"{n:,} runs of {selected_rows:,} row{'' if selected_rows == 1 else 's'} are {selected_rows * n:,} work items; "
            f"a run has at most {MOST_WORK_ITEMS:,}.",
            problems=[Problem(label, f"[evaluation] n: {n}")],
            hint="Choose a smaller n, fewer rows (limit or --rows), or several runs.",
        )


def planned_rows(manifest: Manifest) -> RowSelection:
    """The dataset rows that the run evaluates. Raises OsmosisError when the manifest does not say."""
    try:
        return _selected(manifest)
    except (KeyError, TypeError, AttributeError, OsmosisError):
        raise OsmosisError(
            f"The manifest of run {manifest.run_name} does not name its dataset rows.",
            hint="Restore manifest.json, or start over with --fresh (the directory is archived, not deleted).",
        ) from None


def _selected(manifest: Manifest) -> RowSelection:
    selection = parse_rows(manifest.inputs["dataset"]["selected_source_rows"])
    if selection is None:
        raise KeyError("selected_source_rows")
    return selection

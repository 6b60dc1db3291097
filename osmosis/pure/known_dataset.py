"""What a run's manifest says of its dataset file, so that the same bytes need not be judged again (rulings 3 and 4).

The rows of a run were found sound when it was created. A file with the same fingerprint has the same rows, as long as the rules
by which records become rows are the same.
"""

from __future__ import annotations

import msgspec

from osmosis.pure.plan import DATASET_NORMALIZATION, Manifest


class KnownDataset(msgspec.Struct, frozen=True):
    """A dataset file by its digests, and how many rows it has."""

    sha256: str
    fingerprint: str
    total_rows: int


class _Dataset(msgspec.Struct):
    sha256: str
    fingerprint: str


class _Versions(msgspec.Struct):
    dataset_normalization: int


class _Inputs(msgspec.Struct):
    dataset: _Dataset
    versions: _Versions


class _Provenance(msgspec.Struct):
    total_dataset_rows: int


def known_dataset(manifest: Manifest) -> KnownDataset | None:
    """The dataset of a run; None where the manifest does not say enough, or was written under other rules."""
    try:
        inputs = msgspec.convert(manifest.inputs, _Inputs)
        provenance = msgspec.convert(manifest.provenance, _Provenance)
    except msgspec.ValidationError:
        return None
    if inputs.versions.dataset_normalization != DATASET_NORMALIZATION or provenance.total_dataset_rows < 1:
        return None
    return KnownDataset(inputs.dataset.sha256, inputs.dataset.fingerprint, provenance.total_dataset_rows)

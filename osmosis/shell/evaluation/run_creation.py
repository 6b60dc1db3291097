"""Lays out a new run, and moves an old one of that name aside for it (E16, E17, E19, E22)."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from osmosis.pure.dataset_rows import encode_dataset_rows
from osmosis.pure.plan import Manifest, new_manifest
from osmosis.shell.evaluation import run_directory
from osmosis.shell.evaluation.clock import utc_now

if TYPE_CHECKING:
    from osmosis.pure.providers import Endpoint
    from osmosis.shell.evaluation.file_layer import FileLayer
    from osmosis.shell.evaluation.preparation import Preparation
    from osmosis.shell.evaluation.view import RunView


def archive_earlier(preparation: Preparation, files: FileLayer, view: RunView) -> Path | None:
    """Move an old run of that name aside (`--fresh`), until the new one has dispatched something only provisionally."""
    if not preparation.directory.path.exists() or not preparation.request.fresh:
        return None
    archived = run_directory.archive(files, preparation.directory, datetime.now(UTC))
    view.milestone(f"archived the earlier run as {archived.name}")
    return archived


def create_run(preparation: Preparation, files: FileLayer, endpoint: Endpoint) -> Manifest:
    """Lay out a new run. Where the model answers from a cassette, its endpoint is no part of the run's provenance."""
    base_url = None if preparation.cassette is not None else endpoint.base_url
    manifest = new_manifest(
        inputs=preparation.inputs,
        provenance=msgspec.structs.replace(preparation.provenance, endpoint=base_url),
        local_run_id=uuid.uuid4().hex,
        run_name=preparation.directory.name,
        created_at=utc_now(),
    )
    rows = encode_dataset_rows(preparation.dataset.rows)
    run_directory.create(files, preparation.directory, manifest, preparation.sources, rows)
    return manifest

"""Keeps `dataset_rows.jsonl` as it was when the run was created (E17)."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from osmosis.pure.dataset_rows import encode_dataset_rows
from osmosis.pure.evidence import decode_evidence
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_evidence import own_files
from osmosis.shell.evaluation.stored_rows import StoredRows


def restore_dataset_rows(files: FileLayer, directory: RunDirectory, rows: StoredRows) -> None:
    """What the journal recorded of the file stays as it is; anything else is written again, and is then the same bytes."""
    name = directory.dataset_rows.name
    recorded = _recorded(directory).get(name)
    if recorded is None or recorded != own_files(directory).get(name):
        files.replace_streamed(directory.dataset_rows, encode_dataset_rows(rows), step="dataset_rows")


def _recorded(directory: RunDirectory) -> dict[str, str]:
    """What the journal's first line says of files (decision 0014); nothing where there is no such line."""
    with suppress(FileNotFoundError), directory.journal.open("rb") as journal:
        for line in islice(journal, 1):
            return decode_evidence(line).files or {}
    return {}

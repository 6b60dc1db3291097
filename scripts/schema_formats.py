"""Every format that Osmosis writes for others to read, and the records that define it; `generate_schemas.py` draws the schemas.

A format is defined by the records that the product itself encodes. Where the product adds or exchanges keys while encoding (a
journal line's `seq` and `check`, the typed halves of a manifest, the envelope around a command's result), the document is put
together here from those records, so that no field is written down a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec

from osmosis.pure.agreement import Agreement, Calibration, Spread
from osmosis.pure.cassette import CASSETTE_FORMAT, CallKey, Header, RecordedCall
from osmosis.pure.config_schema import config_schema
from osmosis.pure.dataset_rows import DatasetRow
from osmosis.pure.digest import SOURCE_FILES_SCHEMA, SourceFile
from osmosis.pure.estimate import ErrorOrigin
from osmosis.pure.evidence import Evidence
from osmosis.pure.index import IndexRow
from osmosis.pure.journal import Attempt, RolloutId, Status
from osmosis.pure.journal import Record as JournalRecord
from osmosis.pure.judge_usage import JudgeUsage
from osmosis.pure.metrics_file import Metrics
from osmosis.pure.plan import MANIFEST_SCHEMA, Manifest, Provenance, RunInputs
from osmosis.pure.projections import ProgressFile
from osmosis.pure.protocol import (
    CancelRequest,
    CancelResponse,
    InitRequest,
    InitResponse,
    ResultResponse,
    Sample,
)
from osmosis.pure.rubric_journal import JOURNAL_FORMAT as RUBRIC_FORMAT
from osmosis.pure.rubric_journal import Recorded, RubricHeader
from osmosis.pure.rubric_report import RecordResult
from osmosis.pure.trajectory import Trajectory
from osmosis.shell.evaluation.process_identity import ProcessRecord

Record = type[msgspec.Struct]
JOURNAL_RECORDS: tuple[Record, ...] = get_args(JournalRecord)


class Format(NamedTuple):
    """A schema to draw: the file it is written to, what it describes, and the records that one document may be.

    `unit` says what a document is: the whole file, or one line of it. `schema` replaces what `records` would give.
    """

    name: str
    title: str
    records: tuple[Record, ...]
    unit: Literal["file", "line", "message"] = "file"
    schema: Mapping[str, Any] | None = None


def document(
    name: str, about: str, *parts: Record | Mapping[str, Any], without: tuple[str, ...] = (), sparse: bool = False
) -> Record:
    """A record of the fields of `parts`, in order, as they stand in a JSON object.

    `without` names fields to leave out. `sparse`: what has its default is left out of the object; so it is, too, if that holds
    for one of the parts.
    """
    fields: list[tuple[str, Any, Any]] = []
    sparse = sparse or any(not isinstance(part, Mapping) and part.__struct_config__.omit_defaults for part in parts)
    for part in parts:
        if isinstance(part, Mapping):
            fields += [(key, kind, msgspec.field()) for key, kind in part.items()]
        else:
            known = (field for field in msgspec.structs.fields(part) if field.name not in without)
            fields += [(field.encode_name, field.type, _default(field)) for field in known]
    made = msgspec.defstruct(name, fields, omit_defaults=sparse, kw_only=True)
    made.__doc__ = about
    return made


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return msgspec.field(default=field.default)
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return msgspec.field()


def said(record: Record, /, name: str = "", **kinds: Any) -> Record:
    """`record`, under another `name` if one is given, with what its fields of type `dict` are known to hold."""
    fields = [
        (field.encode_name, kinds.get(field.name, field.type), _default(field)) for field in msgspec.structs.fields(record)
    ]
    if unknown := kinds.keys() - {field.name for field in msgspec.structs.fields(record)}:
        raise ValueError(f"{record.__name__} has no {', '.join(sorted(unknown))}")
    made = msgspec.defstruct(
        name or record.__name__, fields, omit_defaults=record.__struct_config__.omit_defaults, kw_only=True
    )
    made.__doc__ = record.__doc__
    return made


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """An object without keys."""


Digits = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
Position = Annotated[int, msgspec.Meta(ge=1)]
_SEALED = {"seq": Position, "check": Digits}


def _journal_line(record: Record) -> Record:
    """`record` as a line of the journal: its kind, the sequence number and checksum of every line, what it says of files."""
    kind = {str(record.__struct_config__.tag_field): Literal[record.__struct_config__.tag]}
    return document(
        record.__name__, record.__doc__ or "", _SEALED, kind, record, *((Evidence,) if record is not Attempt else ())
    )


_MANIFEST = document(
    "ManifestDocument",
    "What a run is; written once, when the run is created.",
    {"schema_version": Literal[MANIFEST_SCHEMA], "local_run_id": RolloutId},
    Manifest,
    {"inputs": RunInputs, "provenance": Provenance},
    without=("schema_version", "local_run_id", "inputs", "provenance"),
)
_SOURCES = document(
    "SourceFiles",
    "Digests of the files of the rollout, so that a refusal can name those that changed.",
    {"schema_version": Literal[SOURCE_FILES_SCHEMA], "source_digest": str, "files": tuple[SourceFile, ...]},
)
_CASSETTE_HEADER = document(
    "Header", "The first line: what the calls were recorded from.", {"cassette": Literal[CASSETTE_FORMAT]}, Header
)
_CASSETTE_CALL = document(
    "Call",
    "Every other line: a request as it went upstream, and the answer as it came. A stream has `events` instead of `body`.",
    CallKey,
    RecordedCall,
    without=("key",),
    sparse=True,
)
_RUBRIC_OUTPUT = document(
    "RubricOutput",
    "What `osmosis eval rubric --output` writes.",
    {"generated_at": str, "model": str, "rubric": str, "data_path": str, "number": int, "overall_statistics": Spread},
    {"records": tuple[RecordResult, ...], "agreement": Agreement, "calibration": Calibration | None, "usage": JudgeUsage},
)
_RUBRIC_HEADER = document(
    "Header", "The first line: what decides a judgement.", {"rubric_journal": Literal[RUBRIC_FORMAT]}, RubricHeader
)
_SAMPLE_LINE = document(
    "ExportedSample",
    "A sample in `osmosis eval export --format jsonl`; CSV and Parquet have the same columns. Null where there is no value.",
    {"row_index": int, "source_row_index": int, "run_index": int, "rollout_id": str, "status": Status, "graded": bool},
    {"passed": bool | None, "reward": float | None, "tokens": int | None, "prompt_tokens": int | None},
    {"completion_tokens": int | None, "max_context_tokens": int | None, "cost_usd": float | None, "duration_ms": float},
    {"error_type": str | None, "error_origin": ErrorOrigin | None, "error_message": str | None, "resumed": bool},
    {"prompt": str | None, "label": str | None, "metrics": dict[str, Any] | None, "metadata": dict[str, Any] | None},
)

FILES: tuple[Format, ...] = (
    Format("eval_config", "An eval config, configs/eval/NAME.toml", (), schema=config_schema()),
    Format("manifest", "manifest.json of a run", (_MANIFEST,)),
    Format("events", "A line of events.jsonl, the journal of a run", tuple(map(_journal_line, JOURNAL_RECORDS)), "line"),
    Format("index", "A line of index.jsonl and summary.jsonl of a run", (IndexRow,), "line"),
    Format("metrics", "metrics.json of a run", (Metrics,)),
    Format("progress", "progress.json of a run", (ProgressFile,)),
    Format("dataset_rows", "A line of dataset_rows.jsonl of a run", (DatasetRow,), "line"),
    Format("source_files", "source_files.json of a run", (_SOURCES,)),
    Format("server", "server.json of a run that is going on", (ProcessRecord,)),
    Format("trajectory", "trajectory.json of a rollout", (Trajectory,)),
    Format("sample", "sample.json of a rollout", (Sample,)),
    Format("cassette", "A line of a cassette", (_CASSETTE_HEADER, _CASSETTE_CALL), "line"),
    Format("exported_sample", "A line of osmosis eval export --format jsonl", (_SAMPLE_LINE,), "line"),
    Format("rubric_output", "The output file of osmosis eval rubric", (_RUBRIC_OUTPUT,)),
    Format("rubric_journal", "A line of the journal of osmosis eval rubric", (_RUBRIC_HEADER, Recorded), "line"),
)
MESSAGES: tuple[Format, ...] = (
    Format("start", "Body of POST /rollout", (InitRequest,), "message"),
    Format("started", "Answer to POST /rollout", (InitResponse,), "message"),
    Format("result", "Answer to GET /rollout/{id}/result", (ResultResponse,), "message"),
    Format("cancel", "Body of POST /rollout/cancel", (CancelRequest,), "message"),
    Format("cancelled", "Answer to POST /rollout/cancel", (CancelResponse,), "message"),
)
"""The rollout protocol 0.4."""

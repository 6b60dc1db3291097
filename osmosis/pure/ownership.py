"""Ownership telemetry: which server holds which rollout, as OTLP log records (contract: rollout_protocol section 7.9).

Decides what a record says and when there is none, and its bytes: OTLP over HTTP in its JSON encoding, which every collector has
to take (OpenTelemetry protocol specification, "OTLP/HTTP"). So the rollout's environment needs no OpenTelemetry package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from osmosis.pure.protocol import RolloutStatus

SERVICE_NAME: Final = "osmosis-rollout-server"
BODY: Final = "Rollout ownership"
EVENT: Final = "rollout.ownership"
LOGS_PATH: Final = "/v1/logs"
METADATA_KEY: Final = "osmosis_observability"
MAX_TEXT: Final = 512
_SEVERITY_INFO: Final = 9


class Server(msgspec.Struct, frozen=True):
    """Who reports: an id, and names where they are known."""

    server_id: str | None
    server_name: str | None = None
    namespace: str | None = None


class Run(msgspec.Struct, frozen=True):
    """Which run a rollout belongs to, as far as its metadata says."""

    run_id: str | None = None
    run_name: str | None = None


class OwnershipRecord(msgspec.Struct, frozen=True):
    """One change of status, with the time at which it happened in nanoseconds since 1970."""

    attributes: tuple[tuple[str, str | int], ...]
    time_unix_nano: int


def usable_text(value: object) -> str | None:
    """A text that may be an attribute: printable, not blank, at most 512 characters; else None."""
    usable = isinstance(value, str) and bool(value.strip()) and value.isprintable() and len(value) <= MAX_TEXT
    return value if usable and isinstance(value, str) else None


def run_of(metadata: Mapping[str, Any] | None) -> Run:
    """The run that a row's metadata names."""
    named = (metadata or {}).get(METADATA_KEY)
    if not isinstance(named, Mapping):
        return Run()
    return Run(usable_text(named.get("run_id")), usable_text(named.get("run_name")))


def ownership_record(
    server: Server, run: Run, rollout_id: str, status: RolloutStatus, *, sequence: int, time_unix_nano: int
) -> OwnershipRecord | None:
    """The record of one change of status; None if server or rollout cannot be named. `sequence` orders a server's records."""
    server_id, rollout = usable_text(server.server_id), usable_text(rollout_id)
    if server_id is None or rollout is None:
        return None
    texts = (
        ("event", EVENT),
        ("rollout_id", rollout),
        ("server_id", server_id),
        ("server_name", usable_text(server.server_name)),
        ("namespace", usable_text(server.namespace)),
        ("run_id", run.run_id),
        ("run_name", run.run_name),
        ("status", status.value),
    )
    told = tuple((name, value) for name, value in texts if value is not None)
    return OwnershipRecord((*told, ("event_sequence", sequence)), time_unix_nano)


def encode_logs(records: Sequence[OwnershipRecord], *, sdk_version: str) -> bytes:
    """The body of a request to `/v1/logs` with these records."""
    scope = {"name": "osmosis.rollout", "version": sdk_version}
    logs = {"scope": scope, "logRecords": [_log_record(record) for record in records]}
    resource = {"attributes": [_attribute("service.name", SERVICE_NAME)]}
    document = {"resourceLogs": [{"resource": resource, "scopeLogs": [logs]}]}
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def _log_record(record: OwnershipRecord) -> dict[str, Any]:
    return {
        "timeUnixNano": str(record.time_unix_nano),
        "observedTimeUnixNano": str(record.time_unix_nano),
        "severityNumber": _SEVERITY_INFO,
        "severityText": "INFO",
        "body": {"stringValue": BODY},
        "attributes": [_attribute(name, value) for name, value in record.attributes],
    }


def _attribute(name: str, value: str | int) -> dict[str, Any]:
    # 64-bit integers are strings in OTLP's JSON, as protobuf's JSON mapping has them.
    return {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


def exporter_headers(text: str) -> dict[str, str]:
    """Headers from `OTEL_EXPORTER_OTLP_HEADERS`: `name=value,name=value`, percent-encoded; malformed pairs are left out."""
    headers: dict[str, str] = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            headers[unquote(name.strip()).lower()] = unquote(value.strip())
    return headers

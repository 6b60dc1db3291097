"""Rollout protocol 0.4: the records that travel between a runner and a rollout server, and the rules both sides keep.

A runner starts a rollout (`POST /rollout`), is given a lease, and polls for the result with that lease (`GET
/rollout/{id}/result`); each poll is answered at the next change of status. The string "0.4" itself never travels. This module
decides what a valid body is (contract: rollout_protocol sections 2, 7 and 16; requirement E20; ruling 7). When to ask again is
decided in `protocol_retries`, what a finished rollout means to an evaluation in `outcome`.

Whose fault a bad value is shows in its type, as in h11: `LocalProtocolError` is ours, `RemoteProtocolError` the peer's. It must
stay importable in the smallest rollout environment: no pydantic, no polars, no LiteLLM.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from osmosis.pure.canonical import decode_json, well_formed
from osmosis.pure.protocol_retries import GATEWAY_RETRY_DELAYS_SEC as GATEWAY_RETRY_DELAYS_SEC  # noqa: PLC0414 - one door
from osmosis.pure.protocol_retries import GATEWAY_STATUSES as GATEWAY_STATUSES  # noqa: PLC0414
from osmosis.pure.protocol_retries import POLL_TIMEOUT_MARGIN_SEC as POLL_TIMEOUT_MARGIN_SEC  # noqa: PLC0414
from osmosis.pure.protocol_retries import RETRY_AFTER_BOUNDS_SEC as RETRY_AFTER_BOUNDS_SEC  # noqa: PLC0414
from osmosis.pure.protocol_retries import RETRY_AFTER_DEFAULT_SEC as RETRY_AFTER_DEFAULT_SEC  # noqa: PLC0414
from osmosis.pure.protocol_retries import TRANSPORT_RETRY_DELAYS_SEC as TRANSPORT_RETRY_DELAYS_SEC  # noqa: PLC0414
from osmosis.pure.protocol_retries import retry_after_sec as retry_after_sec  # noqa: PLC0414
from osmosis.pure.protocol_retries import retry_delay_sec as retry_delay_sec  # noqa: PLC0414

PROTOCOL_VERSION: Final = "0.4"

POLLING_LEASE_HEADER: Final = "X-Osmosis-Rollout-Lease"
INSTANCE_ID_HEADER: Final = "x-osmosis-rollout-instance-id"
SDK_VERSION_HEADER: Final = "x-osmosis-rollout-sdk-version"

PORT_ENV: Final = "_OSMOSIS_ROLLOUT_PORT"
INSTANCE_ID_ENV: Final = "_OSMOSIS_ROLLOUT_INSTANCE_ID"
ARTIFACT_ROOT_ENV: Final = "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT"
STORED_SAMPLES_ENV: Final = "_OSMOSIS_ROLLOUT_STORED_SAMPLES"
"""Names a directory of samples, `<rollout_id>.json` each, that a server grades instead of running workflows."""
OTLP_ENDPOINT_ENV: Final = "OSMOSIS_ROLLOUT_OTLP_ENDPOINT"
LIFELINE_ENV: Final = "_OSMOSIS_ROLLOUT_LIFELINE_FD"
"""Names the inherited read end of a pipe whose write end the runner holds: end of file means that the runner is gone."""
LEAVE_ENV: Final = "_OSMOSIS_ROLLOUT_LEAVE_FD"
"""Names the inherited read end of a pipe: the artifact root means that the server may go on, nothing that it is not needed."""

DEFAULT_PORT: Final = 8000
DEFAULT_RESULT_WAIT_TIMEOUT_SEC: Final = 30.0
DEFAULT_POLLING_LEASE_TIMEOUT_SEC: Final = 120.0
DEFAULT_RESULT_RETENTION_SEC: Final = 900.0

CANCEL_TIMEOUT_SEC: Final = 5.0

INVALID_ROLLOUT_ID: Final = "rollout_id must be a single path segment (no path separators, and not '.' or '..')"


class LocalProtocolError(ValueError):
    """We were about to send something that the protocol forbids."""


class RemoteProtocolError(ValueError):
    """The peer sent something that the protocol forbids. The message says what, in words for a person."""


class RolloutStatus(StrEnum):
    """Where a rollout is. `unknown` is for backends that lost track; a server never ends a rollout with it."""

    QUEUED = "queued"
    RUNNING = "running"
    GRADING = "grading"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        """Whether this status is final: success, failure or cancelled."""
        return self in _TERMINAL


_TERMINAL = frozenset({RolloutStatus.SUCCESS, RolloutStatus.FAILURE, RolloutStatus.CANCELLED})


class ErrorCategory(StrEnum):
    """Why a rollout failed, for programs."""

    TIMEOUT = "timeout"
    LEASE_EXPIRED = "lease_expired"
    VALIDATION_ERROR = "validation_error"
    HTTP_ERROR = "http_error"
    AGENT_ERROR = "agent_error"
    INTERNAL_ERROR = "internal_error"


class Disposition(StrEnum):
    """What became of one rollout id in a cancel request. Finished rollouts are `not_found`."""

    CANCELLED_QUEUED = "cancelled_queued"
    CANCELLED_RUNNING = "cancelled_running"
    NOT_FOUND = "not_found"


def is_path_segment(text: str) -> bool:
    """Whether `text` names one entry of a directory, whatever the platform: no separators, no NUL, not `.` or `..`."""
    return text not in ("", ".", "..") and not any(mark in text for mark in "/\\\0")


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


class InitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `POST /rollout`. Timeouts are seconds; zero and less mean "already over". Unknown fields are ignored."""

    initial_messages: list[dict[str, Any]]
    label: str | None = None
    metadata: dict[str, Any] | None = None
    rollout_id: str
    chat_completions_url: str
    llm_api_key: str | None = None
    grade: bool = True
    agent_timeout_sec: float | None = None
    grader_timeout_sec: float | None = None
    extra_fields: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not is_path_segment(self.rollout_id):
            raise LocalProtocolError(INVALID_ROLLOUT_ID)
        if self.llm_api_key == "":
            raise LocalProtocolError("llm_api_key must not be empty; leave it out instead")
        for name, value in (("agent_timeout_sec", self.agent_timeout_sec), ("grader_timeout_sec", self.grader_timeout_sec)):
            if value is not None and not math.isfinite(value):
                raise LocalProtocolError(f"{name} must be a finite number")


class InitResponse(msgspec.Struct, frozen=True):
    """Answer 202 to `POST /rollout`: the lease token (shown only here) and the server's two time limits, in seconds."""

    rollout_id: str
    status: RolloutStatus
    polling_lease_token: str
    result_wait_timeout_sec: float
    polling_lease_timeout_sec: float

    def __post_init__(self) -> None:
        if not self.polling_lease_token:
            raise LocalProtocolError("polling_lease_token must not be empty")
        if not _is_positive(self.result_wait_timeout_sec):
            raise LocalProtocolError("result_wait_timeout_sec must be finite and above 0")
        lease = self.polling_lease_timeout_sec
        if not math.isfinite(lease) or lease <= self.result_wait_timeout_sec:
            raise LocalProtocolError("polling_lease_timeout_sec must be finite and above result_wait_timeout_sec")

    @property
    def poll_timeout_sec(self) -> float:
        """How long one poll may take before the client gives up on that request."""
        return self.result_wait_timeout_sec + POLL_TIMEOUT_MARGIN_SEC


class Sample(msgspec.Struct, frozen=True):
    """What a rollout returns: the conversation, and what the grader made of it. `reward` is null unless it counts."""

    messages: list[Any] = []
    label: str | None = None
    reward: float | None = None
    remove_sample: bool = False
    metrics: dict[str, Any] = {}
    extra_fields: dict[str, Any] = {}


class ResultResponse(msgspec.Struct, frozen=True):
    """Answer to a poll. Before the end only `rollout_id` and `status` say anything."""

    rollout_id: str
    status: RolloutStatus
    sample: Sample | None = None
    err_message: str | None = None
    err_category: ErrorCategory | None = None


class CancelRequest(msgspec.Struct, frozen=True):
    """Body of `POST /rollout/cancel`. Exactly one selector; `ids: []` and `prefix: ""` count as given."""

    ids: list[str] | None = None
    prefix: str | None = None
    all: bool = False

    @property
    def selects_once(self) -> bool:
        """Whether exactly one selector was given."""
        return (self.ids is not None) + (self.prefix is not None) + self.all == 1


class CancelResponse(msgspec.Struct, frozen=True):
    """What became of each id. Values are `Disposition`s; a peer may know others."""

    dispositions: dict[str, str]


class Lifecycle(msgspec.Struct, frozen=True):
    """Object `lifecycle` of `GET /health`."""

    accepting_rollouts: bool
    active_rollouts: int

    def __post_init__(self) -> None:
        if self.active_rollouts < 0:
            raise LocalProtocolError("active_rollouts must not be negative")


class Health(msgspec.Struct, frozen=True):
    """The parts of a health report that a runner acts on; whatever is absent or malformed is None (sections 7.2 and 16.8).

    `capacity` is how many rollouts the server takes at once: `max_queue_depth`, else `concurrency.max_concurrent`, and only
    if it is a positive integer. `requires_public_url` is True only if the report says exactly that. `gateway` is this machine's
    address in the sandboxes' network. `regrades` is True only if the server grades stored samples instead of running workflows.
    """

    instance_id: str | None = None
    process_id: str | None = None
    lifecycle: Lifecycle | None = None
    capacity: int | None = None
    environment: str | None = None
    requires_public_url: bool = False
    gateway: str | None = None
    regrades: bool = False


# ---- bodies -------------------------------------------------------------------------------------------------------------

_R = TypeVar("_R", InitRequest, InitResponse, ResultResponse, CancelRequest, CancelResponse)


def encode(record: msgspec.Struct) -> bytes:
    """The JSON body for a record: every field present, nulls included. Lone surrogates become U+FFFD."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return well_formed(text).encode()


def decode_init_request(data: bytes) -> InitRequest:
    """Read the body of `POST /rollout`. Raises RemoteProtocolError."""
    return _decode(data, InitRequest)


def decode_init_response(data: bytes) -> InitResponse:
    """Read the body of a 202. Raises RemoteProtocolError."""
    return _decode(data, InitResponse)


def decode_cancel_request(data: bytes) -> CancelRequest:
    """Read the body of `POST /rollout/cancel`. Raises RemoteProtocolError."""
    return _decode(data, CancelRequest)


def decode_cancel_response(data: bytes) -> CancelResponse:
    """Read the answer to a cancel request. Raises RemoteProtocolError."""
    return _decode(data, CancelResponse)


def decode_result(data: bytes) -> ResultResponse:
    """Read the answer to a poll. Raises RemoteProtocolError.

    JSON has no NaN and no infinity; a body that holds one is refused, with one exception: as the reward it is kept, so that
    `outcome.classify` can fail that rollout alone and the run goes on (ruling 7).
    """
    try:
        return _decode(data, ResultResponse)
    except RemoteProtocolError:
        response = _decode_with_odd_reward(data)
        if response is None:
            raise
        return response


def decode_health(data: bytes) -> Health:
    """Read a health report, forgivingly: only a body that is not a JSON object raises RemoteProtocolError."""
    report = _parse(data)
    if not isinstance(report, dict):
        raise RemoteProtocolError("the health report is not a JSON object")
    endpoint = _object(report.get("chat_endpoint"))
    return Health(
        instance_id=_text(report.get("instance_id")),
        process_id=_text(report.get("process_id")),
        lifecycle=_lifecycle(report.get("lifecycle")),
        capacity=_capacity(report),
        environment=_text(endpoint.get("environment")),
        requires_public_url=endpoint.get("requires_public_url") is True,
        gateway=_text(endpoint.get("gateway")),
        regrades=report.get("regrades") is True,
    )


def expect_rollout(response: InitResponse | ResultResponse, rollout_id: str) -> None:
    """Raise RemoteProtocolError unless `response` speaks of `rollout_id`."""
    if response.rollout_id != rollout_id:
        raise RemoteProtocolError(f"the server answered for rollout {response.rollout_id!r} instead of {rollout_id!r}")


def _decode(data: bytes, kind: type[_R]) -> _R:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError):
        # Lone surrogates are valid JSON that msgspec refuses, so the final word is the slower parser's.
        value = _parse(data)
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RemoteProtocolError(str(error)) from None


def _parse(data: bytes) -> Any:
    try:
        return decode_json(data)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"the body is not JSON: {error}") from None


def _decode_with_odd_reward(data: bytes) -> ResultResponse | None:
    """The response if its only defect is a reward of NaN or infinity, else None."""
    try:
        value = json.loads(data)
        reward = value["sample"].pop("reward")
        json.dumps(value, allow_nan=False)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(reward, float) or math.isfinite(reward):
        return None
    try:
        response = msgspec.convert(value, ResultResponse)
    except msgspec.ValidationError:
        return None
    sample = response.sample
    return None if sample is None else msgspec.structs.replace(response, sample=msgspec.structs.replace(sample, reward=reward))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _positive_integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _capacity(report: Mapping[str, Any]) -> int | None:
    return _positive_integer(report.get("max_queue_depth")) or _positive_integer(
        _object(report.get("concurrency")).get("max_concurrent")
    )


def _lifecycle(value: object) -> Lifecycle | None:
    try:
        return msgspec.convert(value, Lifecycle)
    except msgspec.ValidationError:
        return None


# ---- rules --------------------------------------------------------------------------------------------------------------


def rollout_path(rollout_id: str) -> str:
    """The path of a rollout's result, percent-encoded, so that ids with `?`, `#`, `%` or blanks are found again."""
    return f"/rollout/{quote(rollout_id, safe='')}/result"


def in_flight_limit(requested: int | None, capacity: int | None) -> int:
    """How many rollouts to keep in flight: what was asked for, capped by the server's capacity (section 16.8).

    Values that are not positive mean "not given". With neither, one at a time.
    """
    wanted, most = _positive_integer(requested), _positive_integer(capacity)
    if wanted is None or most is None:
        return wanted or most or 1
    return min(wanted, most)

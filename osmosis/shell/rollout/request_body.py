"""Reading request bodies: the strict record first, pydantic's judgement second (ruling 23; contract: rollout_protocol 7.3).

A body in order costs one msgspec decode. Only a body that the strict records refuse is looked at again by the pydantic models,
which accept a few more spellings (`"5"` for a number) and word the errors of the 422 answer as the public server does.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from osmosis.pure.protocol import (
    CancelRequest,
    InitRequest,
    RemoteProtocolError,
    decode_cancel_request,
    decode_init_request,
)
from osmosis.shell.rollout.registry import RefusalError
from osmosis.shell.rollout.types.protocol import CancelRolloutsRequest, RolloutInitRequest

ModelT = TypeVar("ModelT", bound=BaseModel)


def read_init_request(data: bytes, content_type: str) -> InitRequest:
    """The body of `POST /rollout`. Raises RefusalError (422, or 400 for bytes that are not text)."""
    if is_json(content_type):
        try:
            return decode_init_request(data)
        except RemoteProtocolError:
            pass
    model = _judge(data, content_type, RolloutInitRequest)
    return InitRequest(**{name: getattr(model, name) for name in InitRequest.__struct_fields__})


def read_cancel_request(data: bytes, content_type: str) -> CancelRequest:
    """The body of `POST /rollout/cancel`. Raises RefusalError, also unless exactly one selector is given."""
    request = None
    if is_json(content_type):
        try:
            request = decode_cancel_request(data)
        except RemoteProtocolError:
            pass
    if request is None:
        model = _judge(data, content_type, CancelRolloutsRequest)
        request = CancelRequest(ids=model.ids, prefix=model.prefix, all=model.all)
    if not request.selects_once:
        raise RefusalError(422, "pass exactly one selector: ids, prefix, or all")
    return request


def is_json(content_type: str) -> bool:
    """Whether a content type is JSON. Anything else is refused, so that a web page cannot post here without asking first."""
    essence = content_type.partition(";")[0].strip().lower()
    return essence == "application/json" or (essence.startswith("application/") and essence.endswith("+json"))


def _judge(data: bytes, content_type: str, model: type[ModelT]) -> ModelT:
    if not data:
        raise RefusalError(422, [{"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}])
    value: Any = _load(data) if is_json(content_type) else data.decode("utf-8", "replace")
    try:
        return model.model_validate(value, from_attributes=True)
    except ValidationError as error:
        raise RefusalError(422, [_problem(item) for item in error.errors(include_url=False)]) from None


def _load(data: bytes) -> Any:
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        detail = {"type": "json_invalid", "loc": ["body", error.pos], "msg": "JSON decode error", "input": {}}
        raise RefusalError(422, [detail | {"ctx": {"error": error.msg}}]) from None
    except (ValueError, RecursionError):
        raise RefusalError(400, "There was an error parsing the body") from None


def _problem(error: Any) -> dict[str, Any]:
    return {**error, "loc": ["body", *error["loc"]]}


def encode_detail(detail: object) -> bytes:
    """The body `{"detail": ...}`. NaN becomes null and foreign objects empty, whatever the request held."""
    body = {"detail": detail}
    try:
        return msgspec.json.encode(body, enc_hook=lambda _: {})
    except (UnicodeEncodeError, TypeError, RecursionError):
        return json.dumps({"detail": _without_inputs(detail)}, default=lambda _: {}).encode()


def _without_inputs(detail: object) -> object:
    """A detail without the request's own values, for requests that cannot be quoted."""
    if not isinstance(detail, list):
        return detail
    return [{key: value for key, value in item.items() if key not in ("input", "ctx")} for item in detail]

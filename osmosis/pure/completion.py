"""A provider's answer to one call, and what the rollout gets of it (ruling 18, E33, contract `eval_local.md` section 8.5).

A completion passes with all its fields; only `model` is replaced by what the client asked for. An error keeps its status when
it is the rollout's to fix (4xx) and becomes 502 otherwise. Some gateways report an error with status 200; that is an error too.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from osmosis.pure.members import decode_member, join_members, read_members
from osmosis.pure.usage import CallUsage, UsageDetails, read_details, read_usage

BAD_GATEWAY = 502
MESSAGE_LIMIT = 1000
"""Longest error message that a rollout gets, in code points."""

KEY_REJECTED = (401, 403)
"""Statuses by which a provider says that the key is wrong or may not do this."""


class Redactor(Protocol):
    """Whatever can take secrets out of a text."""

    def text(self, text: str, /) -> str:
        """`text` without secrets."""
        ...


class Completion(msgspec.Struct, frozen=True):
    """A finished answer with status 200. `members` are its JSON members as bytes."""

    members: dict[str, bytes]
    usage: CallUsage | None
    details: UsageDetails | None = None


class ProviderError(msgspec.Struct, frozen=True):
    """An answer that is no completion.

    `status` is what the rollout gets. `provider_status` is what the provider said, None when it said nothing. `retry_after` is
    the provider's header as it came.
    """

    status: int
    message: str
    provider_status: int | None = None
    retry_after: str | None = None

    @property
    def key_rejected(self) -> bool:
        """Whether no further call can succeed with this key."""
        return self.provider_status in KEY_REJECTED


def read_completion(status: int, body: bytes, retry_after: str | None = None) -> Completion | ProviderError:
    """Understand a whole answer of the provider: its HTTP status, decoded body and `Retry-After` header."""
    if status != 200:
        return provider_error(status, body.decode("utf-8", "replace"), retry_after)
    try:
        members = read_members(body)
    except ValueError:
        return ProviderError(BAD_GATEWAY, f"the provider's answer is not a JSON object: {_excerpt(body)}", status)
    if "choices" not in members:
        if members.get("error", b"null") != b"null":
            return embedded_error(members, retry_after)
        return ProviderError(BAD_GATEWAY, f"the provider's answer has no choices: {_excerpt(body)}", status)
    usage = decode_member(members, "usage")
    return Completion(members, read_usage(usage), read_details(usage))


def embedded_error(members: dict[str, bytes], retry_after: str | None = None) -> ProviderError:
    """The error for an `error` member inside an answer with status 200; its `code` is the status if it is a number."""
    error = decode_member(members, "error")
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and not isinstance(code, bool) else 200
    return provider_error(status, members["error"].decode("utf-8", "replace"), retry_after)


def provider_error(status: int | None, message: str, retry_after: str | None = None) -> ProviderError:
    """The error for a provider's status and text: 4xx keeps its status, everything else is 502 (section 8.5)."""
    kept = status if status is not None and 400 <= status < 500 else BAD_GATEWAY
    return ProviderError(kept, message.strip() or f"the provider answered with status {status}", status, retry_after)


def write_completion(completion: Completion, client_model: str) -> bytes:
    """The body for the client: the provider's members in the provider's order, with the client's `model`."""
    model = msgspec.json.encode(client_model)
    return join_members({**completion.members, "model": model})


def error_body(status: int, message: str) -> bytes:
    """The JSON body of an error that a rollout gets (section 8.5). `message` is already redacted."""
    kind = "invalid_request_error" if status == 400 else "bridge_error"
    return msgspec.json.encode({"error": {"message": message, "type": kind, "code": status}, "detail": message})


def one_line(message: str) -> str:
    """`message` on one line, white space collapsed, at most MESSAGE_LIMIT code points."""
    return " ".join(message.split())[:MESSAGE_LIMIT]


def _excerpt(body: bytes) -> str:
    text = body[:200].decode("utf-8", "replace").strip()
    return repr(text) if text else "it is empty"

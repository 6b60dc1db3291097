"""The model bridge's only door: which request may reach a rollout's model (contract `eval_local.md` section 8.1).

`POST /v1/rollouts/{rollout_id}/chat/completions` with the run's bearer token. Every other path is 404, so a probe learns
nothing; the token is compared in constant time.
"""

from __future__ import annotations

import hmac
from urllib.parse import quote, unquote

import msgspec

_PREFIX = "/v1/rollouts/"
_SUFFIX = "/chat/completions"


class Rejection(msgspec.Struct, frozen=True):
    """An answer that needs no model. `detail` is the whole message; `allow` fills the `Allow` header of a 405."""

    status: int
    detail: str
    allow: str | None = None


INVALID_BODY = Rejection(400, "invalid body")
UNKNOWN_ROLLOUT = Rejection(404, "unknown rollout_id")


def rollout_path(rollout_id: str) -> str:
    """The path that a rollout gets as the end of its OpenAI base URL; its client adds `/chat/completions`."""
    return _PREFIX + quote(rollout_id, safe="")


def locate(method: str, raw_path: str, authorization: str | None, token: str) -> str | Rejection:
    """The rollout id that a request names, or why it is turned away. `raw_path` is percent-encoded and without the query."""
    if not (raw_path.startswith(_PREFIX) and raw_path.endswith(_SUFFIX) and len(raw_path) >= len(_PREFIX) + len(_SUFFIX)):
        return Rejection(404, "Not Found")
    if method != "POST":
        return Rejection(405, "Method Not Allowed", allow="POST")
    if not _authorized(authorization, token):
        return Rejection(401, "Unauthorized")
    rollout_id = unquote(raw_path[len(_PREFIX) : -len(_SUFFIX)])
    if rollout_id in ("", ".", "..") or "/" in rollout_id or not rollout_id.isprintable():
        return Rejection(422, "invalid rollout_id")
    return rollout_id


def _authorized(authorization: str | None, token: str) -> bool:
    scheme, _, credentials = (authorization or "").strip().partition(" ")
    given = credentials.strip().encode("utf-8", "surrogateescape")
    return scheme.lower() == "bearer" and hmac.compare_digest(given, token.encode())

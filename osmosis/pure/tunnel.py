"""The public way to the model bridge: which way a run takes, and what a tunnel program's words mean (E3, `eval_local.md` 11).

A managed quick tunnel is chosen by `--tunnel cloudflared`, or by itself when the rollout server's health report says that the
sandbox cannot reach this machine's loopback. `--advertise-url` names a way that the user keeps. A log line is no proof that a
tunnel works: only an answer of this very bridge through the public URL is.
"""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem

PROGRAM = "cloudflared"
PROOF_HEADER = "X-Osmosis-Bridge"
"""A response header of `/` that only the bridge with the run's token can send; a stranger learns nothing from it."""

MOST_IN_FLIGHT = 200
"""Requests that a quick tunnel carries at once; Cloudflare answers the rest with 429."""

QUICK_TUNNEL_URL = re.compile(r"https://(?!api\.)[a-z0-9-]+\.trycloudflare\.com(?![a-z0-9.-])")


class Way(StrEnum):
    """How rollouts reach the bridge."""

    LOOPBACK = "loopback"
    TUNNEL = "tunnel"
    ADVERTISED = "advertised"


class Route(msgspec.Struct, frozen=True):
    """The chosen way, and why in a few words for the person."""

    way: Way
    reason: str = ""


def choose_route(*, tunnel: str | None, advertise_url: str | None, sandbox: str | None) -> Route:
    """`sandbox` names one that cannot reach loopback, None when rollouts can. Flags win over the health report."""
    if advertise_url is not None:
        return Route(Way.ADVERTISED, "--advertise-url")
    if tunnel is not None:
        return Route(Way.TUNNEL, "--tunnel")
    return Route(Way.LOOPBACK) if sandbox is None else Route(Way.TUNNEL, f"the {sandbox} sandbox cannot reach loopback")


def check_flags(tunnel: str | None, advertise_url: str | None, listener_port: int | None) -> None:
    """Raises OsmosisError with everything that is wrong with `--tunnel`, `--advertise-url` and `--listener-port` together."""
    problems = []
    if tunnel not in (None, PROGRAM):
        problems.append(Problem("--tunnel", f"the only tunnel that can be managed is {PROGRAM}", "tunnel"))
    if advertise_url is not None:
        problems += [Problem("--advertise-url", message, "advertise_url") for message in _url_problems(advertise_url)]
        if tunnel is not None:
            problems.append(Problem("--advertise-url", "and --tunnel exclude each other", "advertise_url"))
        if listener_port is None:
            problems.append(Problem("--advertise-url", "needs --listener-port, the port that it leads to", "listener_port"))
    if problems:
        raise OsmosisError(
            "The public way to the model cannot be used.",
            problems=problems,
            hint="Use --tunnel cloudflared alone, or --advertise-url URL together with --listener-port PORT.",
        )


def _url_problems(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return [f"is not a URL: {error}"]
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url:
        return ["must be a URL such as https://host"]
    if parts.query or parts.fragment or parts.username is not None:
        return ["must have no query, no fragment and no user name"]
    return []


def is_insecure(url: str) -> bool:
    """Whether the run's token would cross a network in clear text."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")


def proof(token: str) -> str:
    """What the bridge with this token says in PROOF_HEADER. The token cannot be found from it."""
    return hashlib.sha256(b"osmosis-bridge:" + token.encode()).hexdigest()


def public_url(line: str, pattern: re.Pattern[str] = QUICK_TUNNEL_URL) -> str | None:
    """The URL that a line of the program's output announces."""
    match = pattern.search(line)
    return match[0] if match else None


_RATE_LIMITED = ("429 Too Many Requests", "error code: 1015", "failed to unmarshal quick Tunnel")


def is_rate_limited(line: str) -> bool:
    """Whether a line says that no more tunnels are given out for now."""
    return any(sign in line for sign in _RATE_LIMITED)


def missing_program() -> OsmosisError:
    """The error when there is no such program."""
    return OsmosisError(
        f"A tunnel to the model needs {PROGRAM}, which is not on PATH.",
        code=ErrorCode.NOT_FOUND,
        problems=[Problem(PROGRAM, "no such program")],
        hint="Install cloudflared (Cloudflare's documentation tells how), or keep a tunnel of your own and name it with "
        "--advertise-url URL --listener-port PORT.",
    )


def never_ready(reason: str, output: tuple[str, ...], *, rate_limited: bool) -> OsmosisError:
    """The error when a tunnel does not come about: the reason, and the program's last words."""
    hint = (
        "Cloudflare gives out only so many quick tunnels. Wait some minutes, or name a tunnel of your own with --advertise-url."
        if rate_limited
        else "Check that this machine may open connections to Cloudflare, or name a tunnel of your own with --advertise-url."
    )
    return OsmosisError(
        "The tunnel to the model did not come up.",
        code=ErrorCode.RATE_LIMITED if rate_limited else ErrorCode.NETWORK,
        problems=[Problem(PROGRAM, reason), *(Problem(PROGRAM, line) for line in output)],
        hint=hint,
    )

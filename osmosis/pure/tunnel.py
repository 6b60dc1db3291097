"""The public way to the model bridge: which way a run takes, and what a tunnel program's words mean (E3, `eval_local.md` 11).

A managed quick tunnel is chosen by `--tunnel cloudflared`, or by itself when the rollout server's health report says that the
sandbox cannot reach this machine's loopback. `--advertise-url` names a way that the user keeps. `--listener-host` makes the
bridge listen in the network of the sandboxes as well (ruling 26). A log line is no proof that a tunnel works: only an answer of
this very bridge through the public URL is.
"""

from __future__ import annotations

import hashlib
import ipaddress
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
    LISTENER = "listener"
    TUNNEL = "tunnel"
    ADVERTISED = "advertised"


class Route(msgspec.Struct, frozen=True):
    """The chosen way, and why in a few words for the person."""

    way: Way
    reason: str = ""


AUTO = "auto"
"""As `--listener-host`: the gateway of the sandboxes' network, which the rollout server reports."""


def choose_route(
    *, tunnel: str | None, advertise_url: str | None, sandbox: str | None, listener_host: str | None = None
) -> Route:
    """`sandbox` names one that cannot reach loopback, None when rollouts can. Flags win over the health report.

    With `--listener-host auto` a rollout that can reach loopback needs nothing else.
    """
    if advertise_url is not None:
        return Route(Way.ADVERTISED, "--advertise-url")
    if tunnel is not None:
        return Route(Way.TUNNEL, "--tunnel")
    if listener_host is not None and (sandbox is not None or listener_host != AUTO):
        return Route(Way.LISTENER, "--listener-host")
    return Route(Way.LOOPBACK) if sandbox is None else Route(Way.TUNNEL, f"the {sandbox} sandbox cannot reach loopback")


def listener_address(listener_host: str, gateway: str | None, sandbox: str | None) -> str:
    """The address to listen at besides loopback. Raises OsmosisError for `auto` if the rollout server reports no gateway."""
    if listener_host != AUTO:
        return listener_host
    if gateway is None:
        raise OsmosisError(
            f"The {sandbox} sandbox does not say at which address of this machine it can reach the model.",
            code=ErrorCode.NOT_FOUND,
            hint="Name the address of this machine in the sandboxes' network: --listener-host ADDRESS.",
        )
    return gateway


def check_flags(
    tunnel: str | None, advertise_url: str | None, listener_port: int | None, listener_host: str | None = None
) -> None:
    """Raises OsmosisError with everything that is wrong with the flags that open a way to the model, taken together."""
    problems = []
    if listener_host is not None:
        problems += [Problem("--listener-host", message, "listener_host") for message in _host_problems(listener_host)]
        if tunnel is not None or advertise_url is not None:
            problems.append(Problem("--listener-host", "excludes --tunnel and --advertise-url", "listener_host"))
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
            hint="Use --tunnel cloudflared alone, or --listener-host, or --advertise-url URL with --listener-port PORT.",
        )


def _host_problems(host: str) -> list[str]:
    if host == AUTO:
        return []
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return [f"must be {AUTO} or an IPv4 address of this machine"]
    if address.version != 4 or address.is_multicast:
        return [f"must be {AUTO} or an IPv4 address of this machine"]
    if address.is_unspecified:
        return ["must not be every address of this machine; name the one that the sandboxes see"]
    return []


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

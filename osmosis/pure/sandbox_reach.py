"""Whether a sandbox can reach the model bridge, and under which URL (E3; ruling 26; contract: rollout_protocol 13.1 and 13.5).

The bridge listens on this machine's loopback. Most sandboxes have a loopback of their own, or are somewhere else altogether.
"""

from __future__ import annotations

import ipaddress
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

CUSTOM: Final = "custom"
ORACLE: Final = "oracle"
DOCKER_HOST_NAME: Final = "host.docker.internal"

_SHARE_LOOPBACK: Final = frozenset({"singularity"})
_GATEWAY_ENGINES: Final = frozenset({"docker", "podman"})


class Reach(StrEnum):
    """How a sandbox gets to the bridge's loopback."""

    AS_IT_IS = "as it is"
    """It shares the loopback, or has somebody who relays."""
    BY_HOST_NAME = "by host name"
    """Docker Desktop has a name for the machine."""
    NOT = "not"
    """It needs another address: a public URL, or the gateway of the sandbox's network."""


class ChatEndpoint(msgspec.Struct, frozen=True):
    """The part of the health report by which a runner decides what to expose. `gateway`: the address of this machine in the
    sandboxes' network, where the engine tells; a listener there is reached by them and by nobody outside."""

    environment: str
    requires_public_url: bool
    gateway: str | None = None


def reach(environment: str, platform: str) -> Reach:
    """How sandboxes of an environment type get to loopback on a machine with this `sys.platform`.

    Environments of the user's own are taken to see to it themselves.
    """
    if environment == CUSTOM or environment in _SHARE_LOOPBACK:
        return Reach.AS_IT_IS
    return Reach.BY_HOST_NAME if environment == "docker" and platform == "darwin" else Reach.NOT


def chat_endpoint(environment: str, platform: str, *, agent: str, gateway: str | None = None) -> ChatEndpoint:
    """The health report's entry. The oracle calls no model, so it needs no URL."""
    unreachable = agent != ORACLE and reach(environment, platform) is Reach.NOT
    return ChatEndpoint(environment, unreachable, gateway if unreachable else None)


def has_gateway(environment: str) -> bool:
    """Whether sandboxes of this type are in a network of this machine, whose gateway is this machine."""
    return environment in _GATEWAY_ENGINES


def is_loopback(url: str) -> bool:
    """Whether a URL names the machine that uses it: 127.0.0.0/8, ::1, their mapped forms, localhost."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def sandbox_url(url: str, environment: str, platform: str, *, agent: str) -> str:
    """The chat URL for a sandbox. Raises ValueError that says what to do if the sandbox cannot reach it."""
    if not is_loopback(url):
        return url
    match reach(environment, platform):
        case Reach.AS_IT_IS:
            return url
        case Reach.BY_HOST_NAME:
            return _with_host(url, DOCKER_HOST_NAME)
    if agent == ORACLE:
        return url
    ways = "--tunnel cloudflared, or --advertise-url URL"
    if has_gateway(environment):
        ways = f"--listener-host auto, {ways}"
    raise ValueError(f"The {environment} sandbox cannot reach the model bridge at {url}; run with {ways}.")


def _with_host(url: str, host: str) -> str:
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    port = "" if parts.port is None else f":{parts.port}"
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}{port}"))


def chat_host(url: str) -> str | None:
    """The host of a chat URL, for a list of allowed hosts; None if it has none."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None

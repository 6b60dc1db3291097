"""The way from the rollouts to the bridge, opened once the rollout server has said what its sandbox can reach (E3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AsyncExitStack

import msgspec

from osmosis.pure.tunnel import (
    MOST_IN_FLIGHT,
    PROGRAM,
    QUICK_TUNNEL_URL,
    Way,
    choose_route,
    is_insecure,
    listener_address,
    proof,
)
from osmosis.shell.bridge.server import Bridge
from osmosis.shell.bridge.tunnel import Tunnel
from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.orphans import TUNNEL_RECORD
from osmosis.shell.evaluation.process_identity import ProcessRecord, start_token
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.view import RunView


class RouteRequest(msgspec.Struct, frozen=True):
    """What decides the way. `sandbox` names one that cannot reach loopback, `gateway` this machine's address in its network.

    `pattern` is how a tunnel's URL looks.
    """

    bridge: Bridge
    token: str
    directory: RunDirectory
    tunnel: str | None
    advertise_url: str | None
    sandbox: str | None
    listener_host: str | None = None
    gateway: str | None = None
    pattern: re.Pattern[str] = QUICK_TUNNEL_URL


class OpenRoute(msgspec.Struct, frozen=True):
    """A way that is open. `most_in_flight` is how many rollouts it carries at once, None without a limit of its own."""

    most_in_flight: int | None = None


async def open_route(
    stack: AsyncExitStack, request: RouteRequest, view: RunView, files: FileLayer, on_lost: Callable[[str], None]
) -> OpenRoute:
    """Open the way, and have `stack` close it. `on_lost` is called if it is lost. Raises OsmosisError when it does not open."""
    route = choose_route(
        tunnel=request.tunnel,
        advertise_url=request.advertise_url,
        sandbox=request.sandbox,
        listener_host=request.listener_host,
    )
    if route.way is Way.LOOPBACK:
        return OpenRoute()
    if route.way is Way.LISTENER:
        assert request.listener_host is not None  # the way follows from it
        address = listener_address(request.listener_host, request.gateway, request.sandbox)
        url = await request.bridge.listen_also(address)
        view.warning("MODEL_EXPOSED", f"the model answers at {url} too, to whoever reaches it there with the run's token")
        return OpenRoute()
    if route.way is Way.ADVERTISED:
        assert request.advertise_url is not None  # the way follows from it
        if is_insecure(request.advertise_url):
            view.warning(
                "INSECURE_ADVERTISE_URL",
                f"the run's token crosses the network in clear to {request.advertise_url}",
            )
        request.bridge.advertise(request.advertise_url)
        view.milestone(f"rollouts reach the model through {request.advertise_url}")
        return OpenRoute()
    view.milestone(f"opening a tunnel to the model ({route.reason})")
    tunnel = await _start_tunnel(request, files, on_lost)
    stack.push_async_callback(_stop_tunnel, tunnel, request.directory, view)
    request.bridge.advertise(tunnel.url)
    view.milestone(f"rollouts reach the model through {tunnel.url}")
    return OpenRoute(MOST_IN_FLIGHT)


async def _start_tunnel(request: RouteRequest, files: FileLayer, on_lost: Callable[[str], None]) -> Tunnel:
    path = request.directory.path / TUNNEL_RECORD

    def remember(pid: int) -> None:
        record = ProcessRecord(pid, pid, start_token(pid) or "", PROGRAM, request.bridge.port, utc_now())
        files.replace(path, msgspec.json.encode(record), step="tunnel_record")

    try:
        return await Tunnel.start(
            f"http://127.0.0.1:{request.bridge.port}",
            proof(request.token),
            on_spawn=remember,
            on_exit=on_lost,
            pattern=request.pattern,
        )
    except BaseException:
        # A tunnel that did not come up has been stopped.
        path.unlink(missing_ok=True)
        raise


async def _stop_tunnel(tunnel: Tunnel, directory: RunDirectory, view: RunView) -> None:
    if await tunnel.stop():
        (directory.path / TUNNEL_RECORD).unlink(missing_ok=True)
    else:
        view.warning("TUNNEL_LEFT", f"the tunnel program (process {tunnel.pid}) could not be stopped; the next run tries again")

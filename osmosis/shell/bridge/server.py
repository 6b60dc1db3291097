"""The bridge's listener: rollouts in, provider or cassette out (issue "first light" section 3; contract section 8).

It runs on the loop of the command that starts it, binds loopback only, serves registered rollouts only, and counts the usage
of each call before the last byte of its answer leaves. A client that hangs up takes its upstream call with it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from aiohttp import web

from osmosis.pure.bridge_route import INVALID_BODY, UNKNOWN_ROLLOUT, Rejection, locate, rollout_path
from osmosis.pure.cassette import Cassette, Missing
from osmosis.pure.completion import Redactor
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.model_prices import ModelPrice, price_of, total_cost
from osmosis.pure.providers import Endpoint
from osmosis.pure.request_policy import InvalidBody, Refusal, UpstreamRequest, shape_request
from osmosis.pure.retry_policy import BACKOFF_SECONDS
from osmosis.pure.tunnel import PROOF_HEADER, proof
from osmosis.pure.usage import CallUsage
from osmosis.shell.bridge.answer import TRICKLE_AFTER_SECONDS, Answerer, OnCallFailed, error_response, rejection_response
from osmosis.shell.bridge.event_writer import COMMIT_SECONDS, PING_SECONDS
from osmosis.shell.bridge.gate import Gate, process_ceiling
from osmosis.shell.bridge.recorder import Recorder
from osmosis.shell.bridge.repeats import HOLD_SECONDS
from osmosis.shell.bridge.replay import Replay
from osmosis.shell.bridge.source import Rollout, Source
from osmosis.shell.bridge.sources import source_for
from osmosis.shell.bridge.tracing import Tracing
from osmosis.shell.bridge.waits import Waiting, Waits

HOST = "127.0.0.1"
BACKLOG = 1024
REQUEST_LIMIT = 64 * 1024 * 1024
"""Longest request body, in bytes: room for a long context with images."""


class Bridge:
    """The model endpoint of one run.

    `token` is the run's bearer token. `replay` answers from a cassette and never calls the endpoint; `record` keeps each
    finished call; with both, the cassette answers what it holds, and the rest is asked and kept. The bridge closes `record` and
    `tracing` when it stops. `max_in_flight` limits the calls that the provider gets at once; below it the bridge adapts to what
    the provider takes. `price` is the model's where the config states one.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        token: str,
        redactor: Redactor,
        record: Recorder | None = None,
        replay: Cassette | None = None,
        backoff: tuple[float, ...] = BACKOFF_SECONDS,
        commit_seconds: float = COMMIT_SECONDS,
        ping_seconds: float = PING_SECONDS,
        request_limit: int = REQUEST_LIMIT,
        max_in_flight: int | None = None,
        price: ModelPrice | None = None,
        hold_seconds: float = HOLD_SECONDS,
        tracing: Tracing | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._token = token
        self._cassette = replay
        self._replay: Replay | None = None
        self._recorder = record
        self._backoff = backoff
        self._request_limit = request_limit
        self._waits = Waits()
        self._rollouts: dict[str, Rollout] = {}
        self._source: Source | None = None
        self._listener: asyncio.Server | None = None
        self._others: list[asyncio.Server] = []
        self.port = 0
        self._base_url = ""
        self._public_url: str | None = None
        self._tracing = tracing
        self._gate = Gate(max_in_flight) if replay is None or record is not None else None
        self._most_connections = 2 * process_ceiling()
        self._answerer = Answerer(
            endpoint=endpoint,
            token=token,
            redactor=redactor,
            recorder=record,
            gate=self._gate,
            tracing=tracing,
            price=price_of(_priced(endpoint, replay), price),
            commit_seconds=commit_seconds,
            ping_seconds=ping_seconds,
            hold_seconds=hold_seconds,
        )

    async def start(self, port: int = 0) -> str:
        """Bind loopback at `port` (0: any free one) and serve. Returns the base URL. Raises OsmosisError if it is taken."""
        listening = _bind(port)
        self._source = self._open_source()
        self._server = web.Server(self._handle, request_factory=self._make_request, handler_cancellation=True, access_log=None)
        self._listener = await asyncio.get_running_loop().create_server(self._server, sock=listening, backlog=BACKLOG)
        self.port = listening.getsockname()[1]
        self._base_url = f"http://{HOST}:{self.port}"
        return self._base_url

    def _open_source(self) -> Source:
        if self._cassette is not None and self._recorder is None:
            self._replay = Replay(self._cassette)
            return self._replay
        source = source_for(self._endpoint, backoff=self._backoff, on_wait=self._hear)
        return source if self._cassette is None else Replay(self._cassette, source)

    async def listen_also(self, host: str) -> str:
        """Serve at one more address of this machine, at the same port, and send rollouts there. Returns its base URL.

        The address need not be there yet: an engine makes its network with the first sandbox. Raises OsmosisError.
        """
        listening = _bind(self.port, host)
        self._others.append(await asyncio.get_running_loop().create_server(self._server, sock=listening, backlog=BACKLOG))
        self._public_url = f"http://{host}:{self.port}"
        return self._public_url

    def advertise(self, url: str, *, trickle_after: float = TRICKLE_AFTER_SECONDS) -> None:
        """Rollouts reach the bridge through `url` from now on.

        Whole answers that take longer than `trickle_after` seconds are kept alive by white space (contract 8.4).
        """
        self._public_url = url.rstrip("/")
        self._answerer.trickle_after = trickle_after

    def report_to(self, *, on_provider_rejected: Callable[[str], None], on_call_failed: OnCallFailed) -> None:
        """Who hears of calls that fail; until this is called, nobody does.

        `on_provider_rejected` is called once, with a redacted sentence, when the provider says 401 or 403: no further call can
        succeed. `on_call_failed` hears of every call of a rollout that is answered with an error.
        """
        self._answerer.on_provider_rejected = on_provider_rejected
        self._answerer.on_call_failed = on_call_failed

    def register(self, rollout_id: str, source_row: int, run_index: int) -> None:
        """Serve `rollout_id` from now on. Raises ValueError when the id is already known."""
        if rollout_id in self._rollouts:
            raise ValueError(f"rollout {rollout_id!r} is already registered")
        self._rollouts[rollout_id] = Rollout(source_row, run_index, rollout_id)
        if self._tracing is not None:
            self._tracing.begin_rollout(rollout_id, source_row, run_index)

    def chat_completions_url(self, rollout_id: str) -> str:
        """The OpenAI base URL for a rollout; its client adds `/chat/completions`."""
        return f"{self._public_url or self._base_url}{rollout_path(rollout_id)}"

    def cost(self, rollout_id: str) -> float | None:
        """US dollars of the rollout's finished calls; None when one of them is not known, or there is none."""
        rollout = self._rollouts.get(rollout_id)
        return None if rollout is None else total_cost(rollout.costs)

    def take_usage(self, rollout_id: str) -> tuple[CallUsage, ...] | None:
        """The usage of each finished call, in order of completion; None when no call reported any. Forgets the rollout."""
        rollout = self._rollouts.pop(rollout_id, None)
        if rollout is None:
            return None
        _close(rollout)
        if self._tracing is not None:
            self._tracing.end_rollout(rollout_id, tuple(rollout.usage), total_cost(rollout.costs))
        return tuple(rollout.usage) or None

    def cancel(self, rollout_id: str) -> None:
        """Abandon the rollout's calls in flight and serve it no longer. Its usage can still be taken."""
        if rollout := self._rollouts.get(rollout_id):
            _close(rollout)

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The first requests that the replayed cassette had no answer for, in order; at most 100."""
        return () if self._replay is None else tuple(self._replay.missing)

    @property
    def missing_count(self) -> int:
        """How many requests the replayed cassette had no answer for."""
        return 0 if self._replay is None else self._replay.missing_count

    @property
    def recording_error(self) -> OsmosisError | None:
        """Why recording stopped, if it did."""
        return None if self._recorder is None else self._recorder.error

    @property
    def waiting(self) -> Waiting:
        """How many calls wait because the provider asked them to, and when the next of them tries again."""
        return self._waits.now

    @property
    def calls_at_provider(self) -> tuple[int, int]:
        """How many calls the provider has now, and how many it may have."""
        return (0, 0) if self._gate is None else (self._gate.in_flight, self._gate.window.limit)

    def _hear(self, seconds: float | None, status: int | None) -> None:
        """A call waits before a further try, or has waited."""
        if status == 429 and self._gate is not None:
            self._gate.refused()
        self._waits.hear(seconds)

    @property
    def calls_in_flight(self) -> int:
        """How many calls are being answered now. One that runs on for a client that may come back is one too."""
        return sum(rollout.waited_for + rollout.repeats.running for rollout in self._rollouts.values())

    async def stop(self, grace: float = 2.0) -> None:
        """Take no more calls, cancel those in flight, close every connection; waits `grace` seconds at most for clean-up.

        Stopping twice is harmless. Raises OsmosisError if the cassette could not be finished.
        """
        if self._listener is not None:
            for listener in (self._listener, *self._others):
                listener.close()
            self._listener = None
            running = [task for rollout in self._rollouts.values() for task in _close(rollout)]
            if running:
                await asyncio.wait(running, timeout=grace)
            self._server.pre_shutdown()  # closes idle connections, which would be waited for
            await self._server.shutdown(grace)
        if self._gate is not None:
            self._gate.close()
        if self._source is not None:
            await self._source.close()
            self._source = None
        if self._tracing is not None:
            await self._tracing.stop()
            self._tracing = None
        if self._recorder is not None:
            self._recorder.close()

    def _make_request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=self._request_limit)

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        place = locate(http.method, http.rel_url.raw_path, http.headers.get("Authorization"), self._token)
        if isinstance(place, Rejection):
            response = rejection_response(place)
            if http.rel_url.raw_path == "/":
                response.headers[PROOF_HEADER] = proof(self._token)
            return response
        if len(self._server.connections) > self._most_connections:
            # Each connection is a descriptor; the run needs some for its journal.
            return error_response(503, "the bridge has too many connections; close those that are idle", "1")
        rollout = self._rollouts.get(place)
        if rollout is None or rollout.closed:
            return rejection_response(UNKNOWN_ROLLOUT)
        return await self._tracked(rollout, self._answer(http, rollout))

    async def _tracked(self, rollout: Rollout, answer: Coroutine[Any, Any, web.StreamResponse]) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None  # a coroutine that runs is in a task
        rollout.tasks.add(task)
        rollout.waited_for += 1
        try:
            return await answer
        finally:
            rollout.waited_for -= 1
            rollout.tasks.discard(task)

    async def _answer(self, http: web.BaseRequest, rollout: Rollout) -> web.StreamResponse:
        request = await self._read_request(http, rollout)
        if not isinstance(request, UpstreamRequest):
            return request
        if self._source is None:
            return rejection_response(UNKNOWN_ROLLOUT)
        return await self._answerer.answer(http, rollout, request, self._source)

    async def _read_request(self, http: web.BaseRequest, rollout: Rollout) -> UpstreamRequest | web.Response:
        if http.headers.get("Expect", "").lower() == "100-continue" and http.transport is not None:
            http.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            body = await http.read()
        except web.HTTPRequestEntityTooLarge:
            return self._rejected(rollout, Rejection(413, f"the body is longer than {self._request_limit} bytes"))
        try:
            endpoint = self._endpoint
            shaped = shape_request(body, model=endpoint.model, model_path=endpoint.model_path, kind=endpoint.kind)
        except InvalidBody:
            return self._rejected(rollout, INVALID_BODY)
        if isinstance(shaped, Refusal):
            self._answerer.on_call_failed(rollout.id, 400, shaped.message)
            return error_response(400, shaped.message)
        return shaped

    def _rejected(self, rollout: Rollout, rejection: Rejection) -> web.Response:
        self._answerer.on_call_failed(rollout.id, rejection.status, rejection.detail)
        return rejection_response(rejection)


def _priced(endpoint: Endpoint, replay: Cassette | None) -> Endpoint:
    """Where calls are billed. A replay costs what its recording did, whatever variables are set today."""
    return endpoint if replay is None else msgspec.structs.replace(endpoint, base_url=replay.header.recorded_from.rstrip("/"))


_IP_FREEBIND = 15  # Linux, ip(7); not named by the socket module


def _bind(port: int, host: str = HOST) -> socket.socket:
    # Bound before anything is served, and handed over as it is: nobody can take the port in between.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if host != HOST and sys.platform == "linux":
            listening.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OsmosisError(
            f"The model bridge cannot listen on {host}:{port}.",
            code=ErrorCode.CONFLICT,
            problems=[Problem(f"{host}:{port}", error.strerror or str(error))],
            hint="Choose another port with --listener-port, or leave the choice to the system.",
        ) from None
    listening.setblocking(False)
    return listening


def _close(rollout: Rollout) -> list[asyncio.Task[Any]]:
    rollout.closed = True
    running = list(rollout.tasks)
    for task in running:
        task.cancel()
    return running

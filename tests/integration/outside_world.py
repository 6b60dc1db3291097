"""What lies outside an `osmosis` process, in one thread of the test's own: a model provider and a rollout server, both real.

A crash test ends "the process" hundreds of times. The provider counts the calls that it gets, and the server, made by
`create_rollout_server` and served by uvicorn, is set up anew for each invocation. `LocalServer` stands in the place of
`RolloutProcess`: the same interface without a child process, because starting one takes a second.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, Self

import aiohttp
import msgspec
import uvicorn
from aiohttp import web
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osmosis.pure.journal import WorkItem
from osmosis.pure.protocol import ARTIFACT_ROOT_ENV, Health
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.run_log import RunLog
from osmosis.shell.evaluation.standby import Launch
from osmosis_ai.rollout import (
    AgentWorkflow,
    AgentWorkflowConfig,
    ConcurrencyConfig,
    Grader,
    LocalBackend,
    get_rollout_context,
)
from osmosis_ai.rollout.server import create_rollout_server
from tests.integration.simulated_disk import Gone, SimulatedDisk
from tests.integration.stub_provider import completion, serving

CAPACITY = 8
PATIENCE = 300.0


class _Admission(msgspec.Struct):
    """What is read of a rollout's request."""

    rollout_id: str
    extra_fields: dict[str, Any]


class World:
    """The outside world. `calls` counts model calls by rollout id; `dispatched` says which item a rollout id was."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.dispatched: dict[str, WorkItem] = {}
        self.model_url = ""
        self.server_url = ""
        self.disk: SimulatedDisk | None = None
        self._loop = asyncio.new_event_loop()
        self._app: ASGIApp | None = None
        self._lifespan: AbstractAsyncContextManager[Any] | None = None
        self._ready: asyncio.Future[None]
        self._over = asyncio.Event()
        self._http: aiohttp.ClientSession

    def __enter__(self) -> Self:
        started = self._loop.create_future()
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._live(started),), name="outside-world")
        self._thread.start()
        self.do(asyncio.wait_for(started, PATIENCE))
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Let `work` run in the world, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def open(self, trials: Path) -> None:
        """Serve rollouts that leave their files below `trials`."""
        self.do(self._open(trials))

    def close(self) -> None:
        """Serve no more; returns when the last rollout has ended."""
        self.do(self._close())

    async def _live(self, started: asyncio.Future[None]) -> None:
        # The protocol is named, so that asyncio switches off the delay of small packets.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(self._serve, log_level="critical", lifespan="off", ws="none", interface="asgi3"))
        self.server_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with serving(self._answer) as model, aiohttp.ClientSession() as self._http:
            self.model_url = model.url
            task = asyncio.create_task(server.serve(sockets=[listener]))
            started.set_result(None)
            await self._over.wait()
            server.should_exit = server.force_exit = True
            await task
        listener.close()

    async def _open(self, trials: Path) -> None:
        os.environ[ARTIFACT_ROOT_ENV] = str(trials)
        concurrency = ConcurrencyConfig(max_concurrent=CAPACITY)
        workflow = _workflow(self)
        backend = LocalBackend(
            workflow=workflow, workflow_config=AgentWorkflowConfig(name="ask", concurrency=concurrency), grader=Exact
        )
        app = create_rollout_server(backend=backend, configure_logging=False)
        self._lifespan = app.router.lifespan_context(app)
        await self._lifespan.__aenter__()
        self._app = app

    async def _close(self) -> None:
        self._app = None
        if self._lifespan is not None:
            lifespan, self._lifespan = self._lifespan, None
            await lifespan.__aexit__(None, None, None)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None or scope["type"] != "http":
            raise ConnectionError("nobody is there")
        if scope["path"] == "/rollout":
            receive = await self._noted(receive)
        await self._app(scope, receive, send)

    async def _noted(self, receive: Receive) -> Receive:
        """Note which item is dispatched, and hand on what was read."""
        messages: list[Message] = []
        while not messages or messages[-1].get("more_body"):
            messages.append(await receive())
        request = msgspec.json.decode(b"".join(message.get("body", b"") for message in messages), type=_Admission)
        item = WorkItem(request.extra_fields["row_index"], request.extra_fields["run_index"])
        self.dispatched[request.rollout_id] = item
        self._moment("rollout.dispatched")

        async def again() -> Message:
            return messages.pop(0) if messages else await receive()

        return again

    async def _answer(self, _: web.BaseRequest, body: bytes) -> web.StreamResponse:
        text = str(msgspec.json.decode(body)["messages"][-1]["content"])
        name, _separator, prompt = text.partition("|")
        if prompt:
            self.calls[name] = self.calls.get(name, 0) + 1
            self._moment("model.called")
        return web.json_response(completion(prompt))

    def _moment(self, step: str) -> None:
        # The invocation may end meanwhile, and take its disk with it.
        if (disk := self.disk) is not None:
            try:
                disk.moment(step)
            except Gone:
                pass

    async def ask(self, prompt: str) -> str:
        """One model call of the rollout that is running."""
        rollout = get_rollout_context()
        assert rollout is not None
        async with self._http.post(
            f"{rollout.chat_completions_url}/chat/completions",
            json={"model": "any", "messages": [{"role": "user", "content": f"{rollout.rollout_id}|{prompt}"}]},
            headers={"Authorization": f"Bearer {rollout.api_key}"},
        ) as response:
            response.raise_for_status()
            answer: str = (await response.json())["choices"][0]["message"]["content"]
            return answer


def _workflow(world: World) -> type[AgentWorkflow[Any]]:
    class Ask(AgentWorkflow[Any]):
        """One model call; `file` leaves artifacts behind, `raise` fails after the call."""

        async def run(self, ctx: Any) -> list[dict[str, Any]]:
            """Run it."""
            prompt = ctx.prompt[-1]["content"]
            answer = await world.ask(prompt)
            if prompt.startswith("raise"):
                raise ValueError(prompt)
            if prompt.startswith("file"):
                (ctx.artifacts_dir / "deep" / "er").mkdir(parents=True)
                (ctx.artifacts_dir / "deep" / "er" / "notes.txt").write_text(prompt)
                (ctx.artifacts_dir / "plain.txt").write_text(prompt)
            return [*ctx.prompt, {"role": "assistant", "content": answer}]

    return Ask


class Exact(Grader):
    """1 for the expected answer, else 0; `discard` takes the sample out."""

    async def grade(self, ctx: Any) -> None:
        """Grade it."""
        if ctx.label == "discard":
            ctx.sample.remove_sample = True
        else:
            ctx.set_reward(float(ctx.sample.messages[-1]["content"] == ctx.label))


class LocalServer:
    """The world's rollout server behind the interface of `RolloutProcess`."""

    world: ClassVar[World]

    def __init__(self, url: str, trials: Path) -> None:
        self.url = url
        self.trials = trials
        self.port = int(url.rpartition(":")[2])
        self.health = Health(capacity=CAPACITY)
        self.sdk_version = None

    @classmethod
    async def start(cls, launch: Launch, log: RunLog, files: FileLayer) -> LocalServer:
        """Open the world's server. The task that asks for it ends when the disk's process does."""
        assert isinstance(files, SimulatedDisk)
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        log.write("INFO", "rollout-server", "opened")
        files.on_gone = lambda: _cancel(loop, task)
        cls.world.open(launch.trials)
        return cls(cls.world.server_url, launch.trials)

    def on_exit(self, callback: Callable[[str], None]) -> None:
        """It never exits by itself."""

    async def exited_within(self, seconds: float) -> bool:
        """See `RolloutProcess`."""
        return False

    async def stop(self, grace: float) -> None:
        """See `RolloutProcess`."""
        await asyncio.to_thread(self.world.close)

    def kill(self) -> None:
        """See `RolloutProcess`."""


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    try:
        loop.call_soon_threadsafe(task.cancel)
    except RuntimeError:
        pass  # its loop is closed: it has ended already


@contextmanager
def outside_world() -> Iterator[World]:
    """The world while the context lasts."""
    kept = os.environ.get(ARTIFACT_ROOT_ENV)
    with World() as LocalServer.world:
        yield LocalServer.world
    if kept is None:
        os.environ.pop(ARTIFACT_ROOT_ENV, None)
    else:
        os.environ[ARTIFACT_ROOT_ENV] = kept

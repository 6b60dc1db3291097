"""The rollout server's application is a FastAPI application for whoever looks, and loads FastAPI only then (ruling 23)."""

from __future__ import annotations

import subprocess
import sys

import pytest

SERVER = """
import asyncio, sys
from osmosis_ai.rollout import ExecutionBackend, ExecutionOutcome, ExecutionResult
from osmosis_ai.rollout.server import create_rollout_server

class Instant(ExecutionBackend):
    async def execute(self, request):
        return ExecutionOutcome(workflow=ExecutionResult(status="success"))

class Layer:
    def __init__(self, app):
        self.app = app
    async def __call__(self, scope, receive, send):
        seen.append(scope["type"])
        await self.app(scope, receive, send)

def made(**options):
    return create_rollout_server(backend=Instant(), configure_logging=False, **options)

def ask(app, method, path, body=b"", headers=(), **more):
    # One request, as a server hands it on; (status, body) of the answer.
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
             "headers": [(b"content-type", b"application/json"), *headers], "scheme": "http", "http_version": "1.1",
             "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), **more}
    sent = []
    async def receive():
        return {"type": "http.request", "body": body}
    async def send(message):
        sent.append(message)
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)

def framework():
    return "fastapi" in sys.modules

async def alive(app, during):
    # The lifespan protocol around `during`; what the application said.
    come, said, go = asyncio.Queue(), asyncio.Queue(), []
    serving = asyncio.create_task(app({"type": "lifespan", "state": {}}, come.get, said.put))
    await come.put({"type": "lifespan.startup"})
    go.append((await said.get())["type"])
    during()
    await come.put({"type": "lifespan.shutdown"})
    go.append((await said.get())["type"])
    await serving
    return go

seen = []
app = made()
assert not framework()
"""

STAYS_LIGHT = {
    "health": "assert ask(app, 'GET', '/health')[0] == 200",
    "a refusal": "assert ask(app, 'POST', '/rollout', b'{}')[0] == 422",
    "a poll": "assert ask(app, 'GET', '/rollout/r/result')[0] == 422",
    "cancel": "assert ask(app, 'POST', '/rollout/cancel', b'{\"all\": true}') == (200, b'{\"dispositions\":{}}')",
    "lifespan": "assert asyncio.run(alive(app, lambda: None)) == ['lifespan.startup.complete', 'lifespan.shutdown.complete']",
    "what servers ask": "import inspect; assert not inspect.isclass(app) and not isinstance(app, str) and callable(app)",
    "what Python asks": "assert not hasattr(app, '__wrapped__') and {app: 1}[app] == 1 and repr(app)",
    "uvicorn's configuration": "import uvicorn; uvicorn.Config(app, log_config=None).load()",
}
"""What a run, and a server that gets ready for one, ask of the application."""

BECOMES = {
    "an attribute": "assert app.title == 'Osmosis rollout server'",
    "a missing attribute": "assert not hasattr(app, 'no_such_thing') and framework()",
    "a route": "app.get('/more')(lambda: {'more': 1}); assert ask(app, 'GET', '/more') == (200, b'{\"more\":1}')",
    "a router": "app.include_router(__import__('fastapi').APIRouter()); assert framework()",
    "middleware": "app.add_middleware(Layer); assert ask(app, 'GET', '/rollout/r/result')[0] == 422; assert seen == ['http']",
    "state": "app.state.model = 1; assert app.state.model == 1",
    "an assignment": "app.title = 'Mine'; assert app.title == 'Mine'",
    "a deletion": "del app.title; assert 'title' not in vars(app)",
    "dir": "assert 'include_router' in dir(app)",
    "the documents": "assert ask(app, 'GET', '/docs')[0] == 200",
    "the description": "assert ask(app, 'GET', '/openapi.json')[0] == 200",
    "an unknown path": "assert ask(app, 'GET', '/nothing')[0] == 404",
    "another method": "assert ask(app, 'HEAD', '/health')[0] == 405",
    "a path below another's": "assert ask(app, 'GET', '/x/health', root_path='/x')[0] == 200",
    "FastAPI's class": "from fastapi import FastAPI; assert isinstance(app, FastAPI) and issubclass(app.__class__, FastAPI)",
    "Starlette's class": "from starlette.applications import Starlette; assert isinstance(app, Starlette)",
    "a new class": "app.__class__ = type('Mine', (app.__class__,), {}); assert type(app).__name__ == 'Mine' and app.title",
    "mounted": (
        "from starlette.applications import Starlette; from starlette.routing import Mount\n"
        "outer = Starlette(routes=[Mount('/in', app)]); assert ask(outer, 'GET', '/in/health')[0] == 200"
    ),
    "a test client": (
        "from fastapi.testclient import TestClient\n"
        "with TestClient(app) as client:\n"
        "    assert client.get('/health').json()['lifecycle']['active_rollouts'] == 0\n"
        "    assert client.get('/nothing').status_code == 404"
    ),
    "while it serves": (
        "assert asyncio.run(alive(app, lambda: app.routes)) == ['lifespan.startup.complete', 'lifespan.shutdown.complete']"
    ),
    "a class, and then more": (
        "from fastapi import FastAPI; assert isinstance(app, FastAPI); app.get('/more')(lambda: 1)\n"
        "assert type(app) is app.__class__ and ask(app, 'GET', '/more') == (200, b'1')"
    ),
    "used before": "import fastapi; app = made(); assert type(app).__name__ == 'FrameworkApp'",
    "a key": (
        "app = made(api_key='k'); key = [(b'authorization', b'Bearer k')]\n"
        "for path, status in {'/health': 200, '/docs': 200, '/nothing': 404}.items():\n"
        "    assert ask(app, 'GET', path)[0] == 401\n"
        "    assert ask(app, 'GET', path, headers=key)[0] == status"
    ),
    "a lifespan": (
        "from contextlib import asynccontextmanager\n"
        "@asynccontextmanager\n"
        "async def around(app):\n"
        "    seen.append(app.title)\n"
        "    yield\n"
        "    seen.append('after')\n"
        "asyncio.run(alive(made(lifespan=around), lambda: None)); assert seen == ['Osmosis rollout server', 'after']"
    ),
}
"""Everything else that the documentation of FastAPI promises of an application, and the options that need the framework."""


def outcome(code: str) -> str:
    """What a process of its own says after `code`."""
    finished = subprocess.run(
        [sys.executable, "-c", f"{SERVER}\n{code}\nprint(framework())"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


@pytest.mark.parametrize("code", STAYS_LIGHT.values(), ids=STAYS_LIGHT)
def test_what_a_run_asks_loads_no_framework(code: str) -> None:
    """The four routes, the lifespan, and the questions that servers and Python ask of any object."""
    assert outcome(code) == "False"


@pytest.mark.parametrize("code", BECOMES.values(), ids=BECOMES)
def test_whoever_looks_finds_a_fastapi_application(code: str) -> None:
    """Every way in leads to the real thing, and the protocol's routes are still there."""
    assert outcome(code + "\nassert ask(made(), 'GET', '/health')[0] == 200") == "True"

"""The exchanges of rollout_protocol section 19, request by request and byte by byte, against our server and our client.

`tests/golden/rollout/exchanges.jsonl` holds them in order, written by hand from the contract: what is asked of which server,
and status, headers and body of the answer. `<token>`, `<uuid>` and `<version>` stand for what differs from run to run, `<lease
of X>` for the token that X was given. `wait` says what is waited for first: a `terminal` result, the status `running`, an
`idle` server, an id that is `forgotten`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from osmosis import __version__
from osmosis.shell.rollout.client import RolloutClient
from tests.integration.rollout_server_process import RolloutServer, rollout_server

EXCHANGES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "golden" / "rollout" / "exchanges.jsonl").read_text("utf-8").splitlines()
]
PATTERNS = {"<token>": "[A-Za-z0-9_-]{43}", "<uuid>": "[0-9a-f-]{36}", "<version>": re.escape(__version__)}
TERMINAL = {"success", "failure", "cancelled"}

SERVERS: dict[str, dict[str, Any]] = {
    "recorded": {"result_wait_timeout_sec": 1.0, "polling_lease_timeout_sec": 4.0},
    "hurried": {"result_wait_timeout_sec": 0.1, "polling_lease_timeout_sec": 0.4, "result_retention_sec": 6.0},
    "full": {"backend": "one"},
    "keyed": {"api_key": "the-key"},
}


def send(server: RolloutServer, exchange: dict[str, Any]) -> httpx.Response:
    """Ask what the exchange asks."""
    headers = {
        name: server.leases[value[len("<lease of ") : -1]] if value.startswith("<lease of ") else value
        for name, value in exchange.get("headers", {}).items()
    }
    if "request" in exchange:
        headers["content-type"] = "application/json"
    return server.http.request(exchange["method"], exchange["path"], content=exchange.get("request"), headers=headers)


def arrived(server: RolloutServer, exchange: dict[str, Any]) -> httpx.Response:
    """The answer, once what the exchange waits for has come."""
    wait = exchange.get("wait")
    if wait == "idle":
        while server.http.get("/health").json()["lifecycle"]["active_rollouts"]:
            pass
    response = send(server, exchange)
    while (wait == "terminal" and response.json()["status"] not in TERMINAL) or (
        (wait == "running" and response.json()["status"] != "running") or (wait == "forgotten" and response.status_code == 200)
    ):
        response = send(server, exchange)
    return response


def pattern(text: str) -> re.Pattern[str]:
    """What an answer must match: itself, but for the parts that differ from run to run."""
    parts = re.split("(<token>|<uuid>|<version>)", text)
    return re.compile("".join(PATTERNS.get(part) or re.escape(part) for part in parts))


@pytest.mark.parametrize("framework", ["", "FastAPI"])
@pytest.mark.parametrize("name", SERVERS)
def test_our_server_answers_as_recorded(tmp_path, name, framework):
    """Status, headers and every byte of the body, one exchange after the other, with and without the framework in use."""
    differences = []
    with rollout_server(tmp_path, variables={"TEST_FRAMEWORK": framework}, **SERVERS[name]) as server:
        for exchange in EXCHANGES:
            if exchange["server"] == name:
                response = arrived(server, exchange)
                differences += [f"{exchange['name']}: {difference}" for difference in compared(response, exchange)]
                if response.status_code == 202:
                    server.leases[response.json()["rollout_id"]] = response.json()["polling_lease_token"]
    assert not differences


def compared(response: httpx.Response, exchange: dict[str, Any]) -> Iterator[str]:
    """What is different from the record."""
    if response.status_code != exchange["status"]:
        yield f"status {response.status_code}"
    if not pattern(exchange["answer"]).fullmatch(response.text):
        yield response.text
    for name, value in {"content-type": "application/json", **exchange.get("answer_headers", {})}.items():
        if not pattern(value).fullmatch(response.headers.get(name, "")):
            yield f"header {name}: {response.headers.get(name)}"


def recorded(name: str) -> dict[str, Any]:
    """One exchange."""
    return next(exchange for exchange in EXCHANGES if exchange["name"] == name)


TOKEN = "tVtRmSXMN-KnETmzKLXlstXhIfSXXhNB6nO-uuKra1o"
DISPATCH = (
    '{"initial_messages":[{"role":"user","content":"2*2?"}],"label":null,"metadata":null,"rollout_id":"%s",'
    '"chat_completions_url":"http://c","llm_api_key":null,"grade":true,"agent_timeout_sec":null,"grader_timeout_sec":null,'
    '"extra_fields":null}'
)
RESULTS = [exchange for exchange in EXCHANGES if exchange["name"].endswith(": result")]


@pytest.fixture
async def recording():
    """A server that gives recorded answers in order, and keeps what it was asked."""
    answers: list[tuple[int, str]] = []
    asked: list[tuple[str, str, str, str | None]] = []

    async def answer(request: web.Request) -> web.Response:
        body = (await request.read()).decode()
        asked.append((request.method, request.path, body, request.headers.get("X-Osmosis-Rollout-Lease")))
        status, text = answers.pop(0)
        return web.Response(status=status, text=text.replace("<token>", TOKEN), content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with RolloutClient(url=f"http://127.0.0.1:{runner.addresses[0][1]}/") as client:
        yield client, answers, asked
    await runner.cleanup()


@pytest.mark.parametrize("exchange", RESULTS, ids=[exchange["name"] for exchange in RESULTS])
async def test_our_client_asks_as_recorded_and_reads_what_was_answered(recording, exchange):
    """A refusal for want of room, the admission, a poll without news, the result."""
    client, answers, asked = recording
    result = json.loads(exchange["answer"])
    rollout_id = result["rollout_id"]
    started = recorded(exchange["name"].replace(": result", ": start"))
    pending = recorded("pending, after the wait")["answer"].replace("r-slow", rollout_id)
    answers += [(202, started["answer"]), (200, pending), (200, exchange["answer"])]
    response = await client.run_rollout([{"role": "user", "content": "2*2?"}], "http://c", rollout_id)
    assert response.model_dump(mode="json", exclude={"sample": {"trajectory_messages"}}) == result
    path = f"/rollout/{rollout_id}/result"
    assert asked == [("POST", "/rollout", DISPATCH % rollout_id, None), ("GET", path, "", TOKEN), ("GET", path, "", TOKEN)]


async def test_our_client_cancels_as_recorded(recording):
    """All three selectors in the body, nulls included."""
    client, answers, asked = recording
    answers.append((200, recorded("cancel")["answer"]))
    answer = await client.cancel_rollout("r")
    assert asked == [("POST", "/rollout/cancel", '{"ids":["r"],"prefix":null,"all":false}', None)]
    assert answer.dispositions["r-slow"] == "cancelled_running"

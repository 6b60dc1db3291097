"""The remote rollout API on the wire and in the hand (A6; `legacy_api.md` 5-8), with real servers on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from abc import abstractmethod
from pathlib import Path
from typing import Any

import httpx
import pytest

import osmosis_ai
from osmosis.shell.remote_rollout.agent_loop import event_file_name
from osmosis.shell.remote_rollout.rollouts import Rollouts
from osmosis_ai import (
    AgentLoopNotFoundError,
    AgentLoopRegistry,
    AgentLoopValidationError,
    OpenAIFunctionCallSchema,
    OpenAIFunctionParsedSchema,
    OpenAIFunctionToolSchema,
    OsmosisLLMClient,
    OsmosisServerError,
    OsmosisTransportError,
    OsmosisValidationError,
    RolloutAgentLoop,
    RolloutClientSettings,
    RolloutContext,
    RolloutRequest,
    RolloutResult,
    RolloutSettings,
    ToolArgumentError,
    ToolResponse,
    create_app,
    create_tool_error_result,
    create_tool_result,
    execute_tool_calls,
    get_tool_call_info,
    normalize_stop,
    parse_tool_arguments,
    serialize_tool_result,
    validate_agent_loop,
)
from osmosis_ai.testing import FakeTrainer, ScriptedLLM, create_mock_trainer_app, loop_context
from tests.integration.agent_loops import CALL, Adder, Scripted, served
from tests.integration.stub_provider import deaf_port


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"server_url": "ftp://host"}, "server_url must use http or https scheme"),
        ({"server_url": "http://"}, "server_url must include a host"),
        ({"rollout_id": "  "}, "rollout_id cannot be empty or whitespace only"),
        ({"rollout_id": "x" * 257}, "at most 256"),
        ({"messages": None}, "valid list"),
        ({"metadata": {"x": "y" * 2**20}}, "more than 1048576"),
    ],
)
def test_a_bad_request_is_a_422_that_names_the_problem(change, message):
    """FastAPI's form of errors, without the input, which may hold secrets."""
    with served(create_app(Adder())) as url:
        body = {"rollout_id": "r", "server_url": "http://h", "messages": [], "completion_params": {}, "api_key": "SECRET"}
        response = httpx.post(f"{url}/v1/rollout/init", json=body | change)
    assert response.status_code == 422
    problem = response.json()["detail"][0]
    assert message in problem["msg"]
    assert problem["loc"] == ["body", next(iter(change))]
    assert "SECRET" not in response.text


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b'{"rollout_id": 1}'])
def test_a_body_that_is_no_request(content):
    """Nothing that is posted crashes the server."""
    with served(create_app(Adder())) as url:
        assert httpx.post(f"{url}/v1/rollout/init", content=content).status_code == 422
        assert httpx.get(f"{url}/health").status_code == 200


def test_the_key_is_checked_before_the_body():
    """Without the key even a bad body gets 401; `Bearer` in any case and the key alone are accepted; health needs none."""
    with FakeTrainer() as trainer, served(create_app(Adder(), api_key="the-key")) as url:
        init = f"{url}/v1/rollout/init"
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "the-key-x"},
            {"Authorization": "Basic the-key"},
        ):
            refused = httpx.post(init, content=b"{", headers=headers)
            assert (refused.status_code, refused.json()) == (401, {"detail": "Invalid or missing API key"})
        for value in ("Bearer the-key", "bearer the-key", "the-key"):
            accepted = httpx.post(init, json=trainer.init_request(value, []), headers={"Authorization": value})
            assert accepted.status_code == 202
            trainer.wait_for(value, 90)
        assert httpx.post(init, content=b"{", headers={"Authorization": "the-key"}).status_code == 422
        assert httpx.get(f"{url}/health").status_code == 200
        assert httpx.get(f"{url}/platform/health").status_code == 401
        assert httpx.get(f"{url}/platform/health", headers={"Authorization": "the-key"}).json()["agent_loop"] == "adder"


def test_without_a_key_there_is_no_platform_health():
    """It is 404, as recorded."""
    with served(create_app(Adder())) as url:
        missing = httpx.get(f"{url}/platform/health")
    assert (missing.status_code, missing.json()) == (404, {"detail": "Not found"})


def test_a_repeated_request_starts_nothing():
    """Under one key there is one rollout and one answer, also with another rollout id, also after the end."""
    release = threading.Event()

    async def wait(ctx: RolloutContext) -> RolloutResult:
        await asyncio.to_thread(release.wait, 90)
        return ctx.complete([])

    with FakeTrainer() as trainer, served(create_app(Scripted(wait))) as url:
        init = f"{url}/v1/rollout/init"
        first = httpx.post(init, json=trainer.init_request("a", [], idempotency_key="k"))
        assert httpx.get(f"{url}/health").json()["active_rollouts"] == 1
        second = httpx.post(init, json=trainer.init_request("b", [], idempotency_key="k"))
        assert first.content == second.content
        release.set()
        trainer.wait_for("a", 90)
        assert httpx.post(init, json=trainer.init_request("a", [], idempotency_key="k")).content == first.content
        assert list(trainer.completions) == ["a"]
        assert len(trainer.completions["a"]) == 1


def test_get_tools_that_fails_frees_the_key():
    """A 500, and the next request under the same key is a first one."""
    calls = []

    def tools() -> list[Any]:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("no tools yet")
        return []

    async def done(ctx: RolloutContext) -> RolloutResult:
        return ctx.complete([])

    with FakeTrainer() as trainer, served(create_app(Scripted(done, tools))) as url:
        request = trainer.init_request("r", [])
        failed = httpx.post(f"{url}/v1/rollout/init", json=request)
        assert (failed.status_code, failed.text) == (500, "Internal Server Error")
        assert httpx.post(f"{url}/v1/rollout/init", json=request).status_code == 202
        trainer.wait_for("r", 90)


def test_no_more_rollouts_run_than_allowed():
    """The others wait; all are completed. The first ones stay until as many run as may."""
    running = most = 0
    full = asyncio.Event()

    async def count(ctx: RolloutContext) -> RolloutResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            full.set()
        async with asyncio.timeout(90):
            await full.wait()
        await ctx.chat([{"role": "user", "content": "x"}])
        running -= 1
        return ctx.complete([])

    with FakeTrainer() as trainer, served(create_app(Scripted(count), max_concurrent=2)) as url:
        for number in range(12):
            httpx.post(f"{url}/v1/rollout/init", json=trainer.init_request(str(number), []))
        for number in range(12):
            assert trainer.wait_for(str(number), 90)["status"] == "COMPLETED"
    assert most == 2


QUICK = RolloutSettings(client=RolloutClientSettings(retry_base_delay=0.1))


class Answering(FakeTrainer):
    """A trainer whose statuses come from a list; then it is well."""

    def __init__(self, *statuses: int) -> None:
        super().__init__()
        self.statuses = list(statuses)
        self.posts = 0

    def respond(self, method: str, path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        """The next status."""
        self.posts += 1
        status = self.statuses.pop(0) if self.statuses else 200
        answer = super().respond(method, path, headers, body)
        return answer if status == 200 else (status, {"detail": "scripted"})


async def test_transient_failures_of_a_turn_are_tried_again():
    """5xx is retried three times; the turn counts once."""
    with Answering(500, 503, 502) as trainer:
        async with OsmosisLLMClient(trainer.url + "/", "r", settings=QUICK) as client:
            result = await client.chat_completions([{"role": "user", "content": "x"}], tools=["ignored"])
            assert result.content == "done"
            assert client.get_metrics().num_llm_calls == 1
        assert trainer.posts == 4
        assert "tools" not in trainer.turns[-1]


@pytest.mark.parametrize(("status", "kind", "posts"), [(400, OsmosisValidationError, 1), (302, OsmosisValidationError, 1)])
async def test_a_refused_turn_is_final(status, kind, posts):
    """4xx and redirects are not retried."""
    with Answering(status) as trainer:
        async with OsmosisLLMClient(trainer.url, "r", settings=QUICK) as client:
            with pytest.raises(kind) as caught:
                await client.chat_completions([])
        assert caught.value.status_code == status
        assert trainer.posts == posts


async def test_failures_that_do_not_end_are_errors():
    """After the retries, 5xx is OsmosisServerError and a refused connection OsmosisTransportError."""
    with Answering(*[500] * 9) as trainer:
        async with OsmosisLLMClient(trainer.url, "r", max_retries=1, settings=QUICK) as client:
            with pytest.raises(OsmosisServerError):
                await client.chat_completions([])
        assert trainer.posts == 2
    with deaf_port() as port:
        async with OsmosisLLMClient(f"http://127.0.0.1:{port}", "r", max_retries=0, settings=QUICK) as client:
            with pytest.raises(OsmosisTransportError):
                await client.chat_completions([])


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_any_2xx_takes_the_completion(status):
    """A completion that the trainer has taken is not posted again."""
    with Answering(status) as trainer:
        async with OsmosisLLMClient(trainer.url, "r", settings=QUICK) as client:
            await client.complete_rollout("COMPLETED", [])
        assert trainer.posts == 1


async def test_a_refused_completion_is_an_error_and_is_posted_once():
    """4xx is final for completions too."""
    with Answering(422) as trainer:
        async with OsmosisLLMClient(trainer.url, "r", settings=QUICK) as client:
            with pytest.raises(OsmosisValidationError):
                await client.complete_rollout("COMPLETED", [])
        assert trainer.posts == 1


def test_a_class_needs_a_name_once_it_is_complete():
    """An abstract class between needs none; a complete one without a name is refused at its definition."""

    class Between(RolloutAgentLoop):
        def get_tools(self, request: RolloutRequest) -> list[OpenAIFunctionToolSchema]:
            return []

        @abstractmethod
        def prompt(self) -> str: ...

    with pytest.raises(TypeError, match="must define a 'name'"):

        class Nameless(Between):
            def prompt(self) -> str:
                return ""

            async def run(self, ctx: RolloutContext) -> RolloutResult:
                return ctx.complete([])

    class Named(Between):
        name = "named"

        def prompt(self) -> str:
            return ""

        async def run(self, ctx: RolloutContext) -> RolloutResult:
            return ctx.complete([])

    assert Named().get_default_tools() == []
    with pytest.raises(TypeError):
        Between()  # type: ignore[abstract]


async def test_a_loop_runs_without_a_server(tmp_path):
    """The testing contexts run an agent loop in the hand; events go to a file that no rollout id can lead astray."""
    replies: list[Any] = [{"role": "assistant", "content": None, "tool_calls": [CALL]}, "8"]
    context = loop_context(
        Adder(), [{"role": "user", "content": "5+3?"}], replies, rollout_id="../../r", debug_dir=tmp_path / "events"
    )
    result = await Adder().run(context)
    assert (result.status, result.reward, result.finish_reason) == ("COMPLETED", 1.0, "stop")
    assert result.metrics is not None
    assert (result.metrics.num_llm_calls, result.metrics.num_tool_calls, result.metrics.tool_latency_ms) == (2, 1, 5.0)
    (file,) = (tmp_path / "events").iterdir()
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert events[0] == {"event": "llm_response", "rollout_id": "../../r", "content": None}
    assert context.debug_enabled
    assert not loop_context(Adder(), []).debug_enabled
    assert isinstance(ScriptedLLM([]), osmosis_ai.LLMClientProtocol)


@pytest.mark.parametrize("rollout_id", ["..", "/etc/passwd", "a/b", "x" * 256, "é\0\n", "\ud800", "."])
def test_an_event_file_stays_in_its_directory(rollout_id):
    """Whatever an id holds, its file name is one plain component."""
    name = event_file_name(rollout_id)
    assert Path(name).name == name
    assert name not in (".", "..")
    assert len(name.encode()) <= 255
    assert "\0" not in name


def test_create_app_refuses_what_it_cannot_serve():
    """A class instead of an instance, a blank key, and a registration that would not happen."""
    with pytest.raises(TypeError, match="got the class Adder"):
        create_app(Adder)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="blank"):
        create_app(Adder(), api_key=" ")
    with pytest.raises(ValueError, match="registration"):
        create_app(Adder(), credentials=object())


def test_hooks_run_around_serving():
    """`on_startup` before the first request, `on_shutdown` after the last."""
    order: list[str] = []

    async def start() -> None:
        order.append("start")

    async def stop() -> None:
        order.append("stop")

    with served(create_app(Adder(), on_startup=start, on_shutdown=stop)) as url:
        httpx.get(f"{url}/health")
        assert order == ["start"]
    assert order == ["start", "stop"]


class Broken:
    """Not even a RolloutAgentLoop."""

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)


async def _run(_: object) -> None: ...


TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}


def tool(**changes: Any) -> dict[str, Any]:
    """A tool with members of its function changed; None takes one out."""
    function = {name: value for name, value in {**TOOL["function"], **changes}.items() if value is not None}  # type: ignore[dict-item]
    return {"type": "function", "function": function}


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"name": None}, "MISSING_NAME"),
        ({"name": 5}, "INVALID_NAME_TYPE"),
        ({"name": " "}, "EMPTY_NAME"),
        ({"get_tools": lambda _: 1 / 0}, "GET_TOOLS_EXCEPTION"),
        ({"get_tools": lambda _: None}, "GET_TOOLS_RETURNS_NONE"),
        ({"get_tools": lambda _: ()}, "GET_TOOLS_INVALID_TYPE"),
        ({"get_tools": lambda _: ["x"]}, "INVALID_TOOL_TYPE"),
        ({"get_tools": lambda _: [{"function": TOOL["function"]}]}, "MISSING_TOOL_TYPE"),
        ({"get_tools": lambda _: [{"type": "function"}]}, "MISSING_FUNCTION"),
        ({"get_tools": lambda _: [{"type": "function", "function": "x"}]}, "INVALID_FUNCTION_TYPE"),
        ({"get_tools": lambda _: [tool(name=None)]}, "MISSING_FUNCTION_NAME"),
        ({"get_tools": lambda _: [tool(name="")]}, "INVALID_FUNCTION_NAME"),
        ({"get_tools": lambda _: [tool(parameters="x")]}, "INVALID_PARAMETERS_TYPE"),
        ({"run": None}, "MISSING_RUN_METHOD"),
        ({"run": 5}, "RUN_NOT_CALLABLE"),
        ({"run": lambda _: None}, "RUN_NOT_ASYNC"),
        ({"get_tools": lambda _: [{**TOOL, "type": "magic"}]}, "UNKNOWN_TOOL_TYPE"),
        ({"get_tools": lambda _: [tool(description=None)]}, "MISSING_FUNCTION_DESCRIPTION"),
        ({"get_tools": lambda _: [tool(parameters={})]}, "PARAMETERS_TYPE_NOT_OBJECT"),
    ],
)
def test_validation_finds_each_problem(members, code):
    """Every documented code has an input that brings it; the last three are warnings."""
    found = validate_agent_loop(Broken(**{"name": "n", "get_tools": lambda _: [TOOL], "run": _run, **members}))  # type: ignore[arg-type]
    warning = code in ("UNKNOWN_TOOL_TYPE", "MISSING_FUNCTION_DESCRIPTION", "PARAMETERS_TYPE_NOT_OBJECT")
    assert [problem.code for problem in (found.warnings if warning else found.errors)] == [code]
    assert bool(found) is warning
    if not warning:
        assert str(found.errors[0]).startswith(f"[{code}] ")
        with pytest.raises(AgentLoopValidationError, match=code):
            found.raise_if_invalid()


def test_a_good_loop_is_valid():
    """No errors, no warnings, its tools counted."""
    found = validate_agent_loop(Adder())
    assert (found.valid, found.errors, found.warnings, found.agent_name, found.tool_count) == (True, [], [], "adder", 1)


def test_tool_helpers():
    """Results and arguments in their documented forms."""
    assert create_tool_result("c", {"a": 1}) == {"role": "tool", "content": '{"a": 1}', "tool_call_id": "c"}
    assert create_tool_error_result("c", "no")["content"] == "Error: no"
    texts = ["x", 1, 1.5, True, None, [1], {"a": "é"}]
    assert [serialize_tool_result(value) for value in texts] == ["x", "1", "1.5", "true", "null", "[1]", '{"a": "é"}']
    assert parse_tool_arguments('{"a": 1}') == parse_tool_arguments({"a": 1}) == {"a": 1}
    for arguments in ("[1]", "{", None, 5):
        with pytest.raises(ToolArgumentError):
            parse_tool_arguments(arguments)
    assert get_tool_call_info({}) == ("unknown", "", {})
    with pytest.raises(ToolArgumentError) as caught:
        get_tool_call_info({"id": "c", "function": {"name": "f", "arguments": "{"}})
    assert (caught.value.tool_call_id, caught.value.tool_name) == ("c", "f")
    assert [normalize_stop(value) for value in (None, "a", ["a", 1], 5)] == [None, ["a"], ["a", "1"], None]
    assert ToolResponse().is_empty()
    assert ToolResponse(text="x").is_text_only()
    with pytest.raises(ValueError, match="must be a list"):
        ToolResponse(image="x")  # type: ignore[arg-type]
    parsed = OpenAIFunctionParsedSchema(name="f", arguments="[]")
    assert OpenAIFunctionCallSchema.from_openai_function_parsed_schema(parsed)[1] is True


async def test_tool_calls_run_at_once_and_keep_their_order():
    """All have begun before the first ends; results stand in the order of the calls."""
    barrier = asyncio.Barrier(3)

    async def execute(call: dict[str, Any]) -> dict[str, Any]:
        async with asyncio.timeout(90):
            await barrier.wait()
        return call

    calls = [{"id": str(number)} for number in range(3)]
    assert await execute_tool_calls(calls, execute) == calls


def test_the_registry():
    """A name is taken once; an unknown one is named together with those that exist."""
    registry = AgentLoopRegistry()
    registry.register(Adder())
    with pytest.raises(ValueError, match="already"):
        registry.register(Adder())
    assert registry.list() == ["adder"]
    with pytest.raises(AgentLoopNotFoundError, match="adder"):
        registry.get("other")
    assert registry.unregister("adder") is True
    assert registry.unregister("adder") is False


def test_settings_come_from_the_environment(monkeypatch):
    """Variables by their documented names; what is given wins; nonsense is refused."""
    monkeypatch.setenv("OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES", "7")
    monkeypatch.setenv("OSMOSIS_ROLLOUT_SERVER_RECORD_TTL_SECONDS", "90")
    monkeypatch.setenv("OSMOSIS_ROLLOUT_MAX_METADATA_SIZE_BYTES", "10")
    osmosis_ai.reset_settings()
    try:
        settings = osmosis_ai.get_settings()
        assert (settings.client.max_retries, settings.server.record_ttl_seconds) == (7, 90.0)
        assert osmosis_ai.get_max_metadata_size_bytes() == 10
        assert RolloutClientSettings(max_retries=1).max_retries == 1
        monkeypatch.setenv("OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES", "11")
        with pytest.raises(ValueError, match="less than or equal to 10"):
            RolloutClientSettings()
    finally:
        osmosis_ai.reset_settings()
    assert osmosis_ai.get_max_metadata_size_bytes() == osmosis_ai.DEFAULT_MAX_METADATA_SIZE_BYTES


async def test_the_mock_trainer_app():
    """The in-process trainer answers turns, keeps completions, and gives them back by id."""
    calls = [CALL]
    app = create_mock_trainer_app(tool_call_generator=lambda _: calls)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://trainer") as client:
        turn = (await client.post("/v1/chat/completions", json={"messages": [], "rollout_id": "r"})).json()
        assert turn["choices"][0]["message"]["tool_calls"] == calls
        assert (await client.post("/v1/rollout/completed", json={"rollout_id": "r"})).json() == {"status": "ok"}
        assert (await client.get("/v1/rollout/completed/r")).json() == {"rollout_id": "r"}
        assert (await client.get("/v1/rollout/completed/x")).status_code == 404


async def end(ctx: RolloutContext) -> RolloutResult:
    """A loop that is done at once."""
    return ctx.complete([])


async def test_a_rollout_is_forgotten_after_its_time():
    """Within `record_ttl_seconds` of its end a repeated request finds the first answer; after it, it is a new one."""
    now = 0.0
    with FakeTrainer() as trainer:
        rollouts = Rollouts(Scripted(end), QUICK, max_concurrent=1, record_ttl_seconds=100, debug_dir=None, clock=lambda: now)
        request = RolloutRequest(**trainer.init_request("r", []))
        first = rollouts.admit(request)
        async with asyncio.timeout(90):
            await rollouts.finished()
        now = 99.0
        assert rollouts.admit(request) is first
        assert (rollouts.active, rollouts.completed) == (0, 1)
        now = 100.0
        assert rollouts.completed == 0
        assert rollouts.admit(request) is not first
        await rollouts.shutdown()


@pytest.mark.parametrize(
    ("statuses", "posts", "ends"),
    [([422], 2, ["ERROR"]), ([500] * 9, 3, [])],
    ids=["refused: the trainer must not wait for it", "failed: it may have it all the same"],
)
async def test_a_completion_that_does_not_arrive(statuses, posts, ends):
    """A refused result is followed by an error; a failed one is not, since an error could contradict what arrived."""
    with Answering(*statuses) as trainer:
        rollouts = Rollouts(Scripted(end), QUICK, max_concurrent=1, record_ttl_seconds=100, debug_dir=None)
        rollouts.admit(RolloutRequest(**trainer.init_request("r", [])))
        async with asyncio.timeout(90):
            await rollouts.finished()
        assert trainer.posts == posts
        assert [body["status"] for body in trainer.completions["r"]][-len(ends) :] == (ends or ["COMPLETED"] * posts)

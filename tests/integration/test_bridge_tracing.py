"""Traces over OTLP to a collector on loopback: one span a rollout, one a call, and nothing when nobody asked for it."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from osmosis.pure.providers import Endpoint
from osmosis.shell.bridge.tracing import is_configured, start_tracing
from tests.integration.stub_provider import KEY, PATIENCE, STREAM, TOKEN, answers, bridged, completion, serving, streams

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

QUESTION = {
    "model": "asked",
    "messages": [{"role": "user", "content": "a secret of the dataset"}],
    "temperature": 0.5,
    "max_tokens": 7,
    "seed": 3,
}
ENDPOINT = Endpoint("openai", "real-1", "http://127.0.0.1:4/v1", "OPENAI_API_KEY", KEY)


class Collector:
    """What arrived, as decoded spans and as bytes."""

    def __init__(self):
        self.raw = b""
        self.url = ""
        self._more = asyncio.Condition()

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Keep an export request."""
        body = await request.read()
        async with self._more:
            self.raw += gzip.decompress(body) if request.headers.get("Content-Encoding") == "gzip" else body
            self._more.notify_all()
        return web.Response(content_type="application/x-protobuf")

    async def wait_spans(self, count: int) -> None:
        """Wait until that many spans have come. A bridge stops in a few seconds, and sends in the background what is left."""
        async with asyncio.timeout(PATIENCE), self._more:
            await self._more.wait_for(lambda: len(self.spans) >= count)

    @property
    def spans(self):
        """(name, attributes, span) of each span, in order of arrival."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        request = ExportTraceServiceRequest.FromString(self.raw)
        found = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
        return [(span.name, {each.key: value_of(each.value) for each in span.attributes}, span) for span in found]


def value_of(value):
    """A protobuf value as Python has it."""
    kind = value.WhichOneof("value")
    return [value_of(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


@asynccontextmanager
async def collecting():
    """A collector while the context lasts."""
    collector = Collector()
    server = web.Server(collector.handle, access_log=None)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    collector.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield collector
    finally:
        listener.close()
        await server.shutdown(1)


@asynccontextmanager
async def traced(monkeypatch, answer):
    """A traced bridge to a stub: (front, collector). What was traced is complete when the context is left."""
    async with collecting() as collector, serving(answer) as stub:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        tracing = start_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}, ENDPOINT, "calm-otter-7")
        async with bridged(stub.url, tracing=tracing) as front:
            yield front, collector, stub


async def test_one_span_a_rollout_and_one_a_call(monkeypatch):
    """Both carry the conventions' names, tokens and settings, calls below their rollout; neither content nor key."""
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    async with traced(monkeypatch, answers(completion("the answer", usage=usage))) as (front, collector, stub):
        await front.ask(QUESTION)
        stub.answer = streams(*STREAM)
        await front.ask({**QUESTION, "stream": True})
        stub.answer = answers({"error": {"message": f"bad {KEY}"}}, 400)
        await front.ask(QUESTION)
        front.bridge.take_usage("r")
        await front.bridge.stop()
        await collector.wait_spans(4)
    spans = collector.spans
    calls = [(attributes, span) for name, attributes, span in spans if name == "chat real-1"]
    [(rollout, parent)] = [(attributes, span) for name, attributes, span in spans if name == "invoke_agent rollout"]
    assert (rollout["osmosis.rollout.id"], rollout["osmosis.row"], rollout["osmosis.run"]) == ("r", 3, 1)
    assert (rollout["gen_ai.usage.input_tokens"], rollout["gen_ai.usage.output_tokens"]) == (6, 4)
    assert {span.parent_span_id for _, span in calls} == {parent.span_id}
    whole, streamed, refused = (attributes for attributes, _ in sorted(calls, key=lambda call: call[1].start_time_unix_nano))
    for attributes in (whole, streamed):
        assert attributes["gen_ai.operation.name"] == "chat"
        assert attributes["gen_ai.provider.name"] == "openai"
        assert attributes["gen_ai.request.model"] == "real-1"
        assert attributes["gen_ai.request.temperature"] == 0.5
        assert (attributes["gen_ai.request.max_tokens"], attributes["gen_ai.request.seed"]) == (7, 3)
        assert (attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"]) == (3, 2)
        assert attributes["gen_ai.response.finish_reasons"] == ["stop"]
        assert attributes["gen_ai.response.id"] == "c1"
    assert (refused["error.type"], refused["http.response.status_code"]) == ("400", 400)
    for content in (b"secret of the dataset", b"the answer", KEY.encode(), TOKEN.encode()):
        assert content not in collector.raw


async def test_a_call_whose_client_left_has_a_span_too(monkeypatch):
    """A cancelled call ends its span as cancelled."""
    arrived = asyncio.Event()

    async def forever(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        arrived.set()
        await asyncio.Event().wait()
        return web.Response()

    async with traced(monkeypatch, forever) as (front, collector, stub):
        call = asyncio.create_task(front.ask(QUESTION))
        async with asyncio.timeout(PATIENCE):
            await arrived.wait()
        call.cancel()
        await stub.wait_abandoned()
        await front.bridge.stop()
        await collector.wait_spans(2)
    assert [attributes["error.type"] for name, attributes, _ in collector.spans if name.startswith("chat")] == ["cancelled"]


async def test_a_collector_that_is_not_there_costs_nothing(monkeypatch):
    """Calls are answered and the bridge stops within its time although no span gets anywhere."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    tracing = start_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, ENDPOINT, "r")
    async with serving(answers()) as stub, bridged(stub.url, tracing=tracing) as front:
        assert (await front.ask(QUESTION))[0] == 200


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_nobody_is_traced_unasked(environment, wanted):
    """Only an endpoint that somebody configured, in OpenTelemetry's own variables, turns traces on."""
    assert is_configured(environment) is wanted


def test_off_means_not_even_imported():
    """Without an endpoint, a bridge that serves does not import OpenTelemetry."""
    question = (
        "import asyncio, json, sys\n"
        "from osmosis.pure.providers import Endpoint\n"
        "from osmosis.pure.redaction import Redactor\n"
        "from osmosis.shell.bridge import Bridge\n"
        "from osmosis.shell.bridge.tracing import start_tracing\n"
        "endpoint = Endpoint('openai', 'm', 'http://127.0.0.1:1/v1', None, None)\n"
        "async def main():\n"
        "    bridge = Bridge(endpoint, token='t', redactor=Redactor(), tracing=start_tracing({}, endpoint, 'r'))\n"
        "    await bridge.start()\n"
        "    bridge.register('r', 0, 0)\n"
        "    bridge.take_usage('r')\n"
        "    await bridge.stop()\n"
        "asyncio.run(main())\n"
        "print(json.dumps([name for name in sys.modules if name.startswith('opentelemetry')]))\n"
    )
    asked = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=True, timeout=600)
    assert json.loads(asked.stdout) == []

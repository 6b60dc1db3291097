"""No key material in any error, cassette or trace, raw, URL-encoded, JSON-escaped or base64, however a model is spoken to."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from osmosis.pure.cassette import Header
from osmosis.pure.providers import Endpoint, Wire
from osmosis.pure.redaction import Redactor
from osmosis.pure.secret_forms import secret_values
from osmosis.shell.bridge import Recorder
from osmosis.shell.bridge.tracing import start_tracing
from tests.integration.stub_provider import TOKEN, answers, bridged, completion, serving
from tests.integration.test_bridge_tracing import collecting

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

KEY = 'sk-"quoted"\\/+key= 0123456789'
OTHER = "another-secret/of=the+run 42"
QUESTION = {"model": "asked", "messages": [{"role": "user", "content": "2+2?"}]}
WIRES = [
    ("openai/real-1", Wire.CHAT, "/v1"),
    ("openai/gpt-5-pro", Wire.RESPONSES, "/v1"),
    ("anthropic/claude-sonnet-4-5", Wire.NATIVE, ""),
    ("gemini/gemini-2.5-flash", Wire.NATIVE, "/v1"),
]


def spellings(secret: str) -> list[str]:
    """The forms that issue 4 lists, and pieces of longer base64 texts around it at each offset."""
    encoded = [base64.b64encode(b"x" * offset + secret.encode() + b"y" * 3).decode() for offset in range(3)]
    return [
        secret,
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        base64.b64encode(secret.encode()).decode(),
        base64.urlsafe_b64encode(secret.encode()).decode(),
        *(text[8:-8] for text in encoded),
    ]


def leaked(text: str) -> list[str]:
    """Which spellings of the secrets stand in `text`."""
    return [form for secret in (KEY, OTHER, TOKEN) for form in spellings(secret) if form in text]


def blabbing() -> dict:
    """An error in which a provider repeats everything that it was ever told, in every spelling."""
    words = " | ".join(form for secret in (KEY, OTHER, TOKEN) for form in spellings(secret)[:6])
    return {"type": "error", "error": {"message": f"you sent {words}", "type": "invalid_request_error", "code": "x"}}


def redactor() -> Redactor:
    """As a run makes it: the key, the token and a configured secret."""
    return Redactor(secret_values([OTHER, TOKEN], {}, [KEY]))


@pytest.mark.parametrize(("model_path", "wire", "path"), WIRES, ids=[f"{path}" for path, _, _ in WIRES])
@pytest.mark.parametrize("status", [400, 401, 500])
async def test_a_provider_that_repeats_secrets(model_path, wire, path, status, tmp_path):
    """Whatever spelling comes back in an error, whole or streamed, neither rollout, supervisor nor cassette gets it."""
    file = tmp_path / "c.jsonl"
    recorder = Recorder(file, Header("m", "x", "2026-11-30T12:00:00Z"), redactor())
    async with serving(answers(blabbing(), status)) as stub:
        base = stub.url.removesuffix("/v1") + path
        options = {"model_path": model_path, "wire": wire, "redactor": redactor(), "key": KEY, "record": recorder}
        async with bridged(base, **options) as front:
            texts = [(await front.ask({**QUESTION, "stream": stream}))[1].decode() for stream in (False, True)]
            texts += front.rejected
    texts.append(file.read_text())
    assert stub.seen
    assert [leaked(text) for text in texts] == [[]] * len(texts)
    assert any("you sent" in text for text in texts)


async def test_a_model_that_repeats_secrets_is_not_recorded_with_them(tmp_path):
    """An answer reaches the rollout as it was given (E9); the cassette, which may be shared, has no secret of either side."""
    file = tmp_path / "c.jsonl"
    recorder = Recorder(file, Header("m", "x", "2026-11-30T12:00:00Z"), redactor())
    words = " | ".join(spellings(OTHER)[:6])
    question = {**QUESTION, "messages": [{"role": "user", "content": words}], "metadata": {"note": KEY}}
    async with serving(answers(completion(words))) as stub, bridged(stub.url, redactor=redactor(), record=recorder) as front:
        status, _ = await front.ask(question)
    assert status == 200
    assert len(file.read_text().splitlines()) == 2
    assert leaked(file.read_text()) == []


async def test_traces_have_no_secret(monkeypatch):
    """Nothing of an error's words, the key or the token is in what a collector gets."""
    endpoint = Endpoint("openai", "real-1", "http://127.0.0.1:4/v1", "OPENAI_API_KEY", KEY)
    async with collecting() as collector, serving(answers(blabbing(), 400)) as stub:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        tracing = start_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}, endpoint, "r")
        async with bridged(stub.url, key=KEY, redactor=redactor(), tracing=tracing) as front:
            await front.ask(QUESTION)
            await front.bridge.stop()
            await collector.wait_spans(2)
    assert collector.spans
    assert leaked(collector.raw.decode("utf-8", "replace")) == []

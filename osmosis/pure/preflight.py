"""What a preflight call proves about a configured model (E27, contract `eval_local.md` section 8.7).

A refused connection, an unknown host, a rejected key, a missing model and a server that stays broken stop the run before
anything is created. A provider that is only busy (429) passes: the run has its own patience.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from osmosis.pure.completion import Completion, ProviderError
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.providers import Endpoint, Wire
from osmosis.pure.retry_policy import RETRIED_STATUSES


class Probe(StrEnum):
    """How a probe limits the answer's length."""

    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"
    UNLIMITED = "unlimited"


class Step(StrEnum):
    """What to do after an answer to a probe."""

    STOP = "stop"
    WAIT = "wait"
    ANOTHER_PROBE = "another_probe"


PROBES = (Probe.MAX_TOKENS, Probe.MAX_COMPLETION_TOKENS, Probe.UNLIMITED)
"""Limits to try in turn while the provider finds fault with the request itself: which one a model takes differs."""

RETRY_SECONDS = (0.5, 1.5)
"""Pauses before each further try at a busy or broken server."""

_ADVICE = {
    401: (ErrorCode.AUTH_REQUIRED, "Check {key}."),
    403: (ErrorCode.AUTH_REQUIRED, "Check {key}, and that its account may use this model."),
    404: (ErrorCode.NOT_FOUND, "Check the model name in experiment.model_path and the base URL {url}."),
    None: (ErrorCode.NETWORK, "Check that the server runs and that the base URL {url} is right."),
}
_BROKEN = (ErrorCode.NETWORK, "The provider is failing. Try again later, or choose another endpoint.")
_REFUSED = (ErrorCode.VALIDATION, "Check the model name in experiment.model_path and what the provider's message asks for.")
_NO_API = (
    ErrorCode.VALIDATION,
    "Check the base URL {url}: it must be the root of an OpenAI-compatible API, often ending in /v1.",
)


def probe_body(endpoint: Endpoint, probe: Probe) -> bytes:
    """The request: one word to the model, and room for 256 tokens where the probe sets a limit."""
    limit = {} if probe is Probe.UNLIMITED else {probe.value: 256}
    return msgspec.json.encode({"model": endpoint.model, "messages": [{"role": "user", "content": "hi"}], **limit})


def next_step(outcome: Completion | ProviderError) -> Step:
    """Wait after a busy or broken server, try another probe after a fault found with the request, else stop."""
    if isinstance(outcome, Completion):
        return Step.STOP
    if outcome.provider_status in RETRIED_STATUSES:
        return Step.WAIT
    return Step.ANOTHER_PROBE if outcome.provider_status in (400, 422) else Step.STOP


def verdict(endpoint: Endpoint, outcome: Completion | ProviderError, message: str) -> OsmosisError | None:
    """None when the model can be used; otherwise the error to stop with. `message` is the provider's, redacted."""
    if isinstance(outcome, Completion) or outcome.provider_status == 429:
        return None
    status = outcome.provider_status
    code, step = _advice(status)
    said = message if status is None else f"HTTP {status}: {message}"
    native = endpoint.wire is Wire.NATIVE
    key = endpoint.api_key_variable or (f"the credentials of {endpoint.provider}" if native else "the API key: none is set")
    return OsmosisError(
        f"The model {endpoint.model_path!r} does not answer at {endpoint.host}.",
        code=code,
        problems=[Problem(endpoint.url, said)],
        hint=step.format(key=key, url=endpoint.base_url or f"of {endpoint.provider}"),
        details={"model": endpoint.model_path, "endpoint": endpoint.base_url, "status": status},
    )


def _advice(status: int | None) -> tuple[ErrorCode, str]:
    if status in _ADVICE:
        return _ADVICE[status]
    if status is not None and status >= 500:
        return _BROKEN
    return _REFUSED if status is not None and 400 <= status < 500 else _NO_API

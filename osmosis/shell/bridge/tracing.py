"""OpenTelemetry traces of rollouts and model calls: with the extra `otel` and an endpoint configured, else nothing at all.

Off means that no tracing code runs and OpenTelemetry is not imported. Spans leave in the background; a collector that does not
answer costs the run nothing but its spans.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from osmosis import __version__
from osmosis.pure.completion import ProviderError
from osmosis.pure.errors import OsmosisError
from osmosis.pure.providers import Endpoint
from osmosis.pure.request_policy import UpstreamRequest
from osmosis.pure.trace_attributes import (
    answer_attributes,
    request_attributes,
    rollout_attributes,
    usage_attributes,
)
from osmosis.pure.usage import CallUsage

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
FLUSH_SECONDS = 3.0
"""How long the end of a run waits for the last spans to leave."""


def is_configured(environment: Mapping[str, str]) -> bool:
    """Whether somebody wants traces: an endpoint is set, and the SDK is not switched off (OpenTelemetry's own variables)."""
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    no_traces = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
    return not disabled and not no_traces and any(environment.get(name, "").strip() for name in _ENDPOINTS)


def start_tracing(environment: Mapping[str, str], endpoint: Endpoint, run_name: str) -> Tracing | None:
    """Traces of a run, or None when nobody configured an endpoint. Raises OsmosisError when the extra is not installed."""
    if not is_configured(environment):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise OsmosisError(
            "Traces are configured, but OpenTelemetry is not installed.",
            hint="Install the extra that brings it: pip install 'osmosis-ai[otel]', or unset OTEL_EXPORTER_OTLP_ENDPOINT.",
        ) from None
    own = {"service.version": __version__, "osmosis.run_name": run_name}
    if not environment.get("OTEL_SERVICE_NAME"):
        own["service.name"] = "osmosis"
    provider = TracerProvider(resource=Resource.create(own), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider, endpoint)


class Tracing:
    """Makes the spans of one run."""

    def __init__(self, provider: Any, endpoint: Endpoint) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra

        self._trace = trace
        self._provider = provider
        self._tracer = provider.get_tracer("osmosis", __version__)
        self._endpoint = endpoint
        self._rollouts: dict[str, Any] = {}

    def begin_rollout(self, rollout_id: str, source_row: int, run_index: int) -> None:
        """A rollout starts."""
        attributes = rollout_attributes(rollout_id, source_row, run_index)
        self._rollouts[rollout_id] = self._tracer.start_span("invoke_agent rollout", attributes=attributes)

    def end_rollout(self, rollout_id: str, calls: tuple[CallUsage, ...], cost_usd: float | None) -> None:
        """A rollout ended; ending it twice is harmless."""
        if span := self._rollouts.pop(rollout_id, None):
            span.set_attributes(usage_attributes(calls, cost_usd))
            span.end()

    def call(self, rollout_id: str, request: UpstreamRequest) -> CallSpan:
        """A model call of that rollout starts."""
        parent = self._rollouts.get(rollout_id)
        span = self._tracer.start_span(
            f"chat {self._endpoint.model}",
            context=None if parent is None else self._trace.set_span_in_context(parent),
            kind=self._trace.SpanKind.CLIENT,
            attributes=request_attributes(self._endpoint, request.body, stream=request.stream),
        )
        return CallSpan(span, self._trace.StatusCode.ERROR)

    async def stop(self) -> None:
        """End what is open and give the last spans a moment to leave."""
        for rollout_id in tuple(self._rollouts):
            self.end_rollout(rollout_id, (), None)
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS + 1):
                await loop.run_in_executor(None, self._provider.force_flush, int(FLUSH_SECONDS * 1000))
        # Shutting down would wait for a collector that does not answer; the exporter's thread is a daemon.
        loop.run_in_executor(None, self._provider.shutdown)


class CallSpan:
    """The span of one model call."""

    def __init__(self, span: Any, error: Any) -> None:
        self._span = span
        self._error = error

    def answered(self, members: dict[str, bytes], usage: CallUsage | None, cost_usd: float | None) -> None:
        """The call brought a completion."""
        self._span.set_attributes(answer_attributes(members) | usage_attributes((usage,) if usage else (), cost_usd))

    def failed(self, error: ProviderError) -> None:
        """The call brought an error."""
        self._span.set_attribute("error.type", str(error.provider_status or "no_answer"))
        if error.provider_status is not None:
            self._span.set_attribute("http.response.status_code", error.provider_status)
        self._span.set_status(self._error)

    def abandoned(self) -> None:
        """The client left, or the run ended."""
        self._span.set_attribute("error.type", "cancelled")
        self._span.set_status(self._error)

    def end(self) -> None:
        """The call is over."""
        self._span.end()

"""One call before anything is created, to learn whether the model answers (E27, contract `eval_local.md` section 8.7)."""

from __future__ import annotations

import asyncio

from osmosis.pure.completion import Completion, ProviderError, Redactor, one_line, read_completion
from osmosis.pure.preflight import PROBES, RETRY_SECONDS, Probe, Step, next_step, probe_body, verdict
from osmosis.pure.providers import Endpoint
from osmosis.pure.redaction import Redactor as KeyRedactor
from osmosis.pure.request_policy import UpstreamRequest
from osmosis.shell.bridge.source import CallFailed, Rollout, Source
from osmosis.shell.bridge.sources import source_for


async def preflight(endpoint: Endpoint, *, redactor: Redactor | None = None, pauses: tuple[float, ...] = RETRY_SECONDS) -> None:
    """Ask the model for one short answer. Returns when it can be used, which includes a provider that is only busy (429).

    `pauses` are the seconds before each further try. Raises OsmosisError with endpoint, model and what to do when the
    connection, the key, the model name or the server is at fault.
    """
    source = source_for(endpoint, backoff=())
    try:
        outcome = await _ask(source, endpoint, pauses)
    finally:
        await source.close()
    if error := verdict(endpoint, outcome, _printable(endpoint, outcome, redactor)):
        raise error


async def _ask(source: Source, endpoint: Endpoint, pauses: tuple[float, ...]) -> Completion | ProviderError:
    probes, waits = iter(PROBES), iter(pauses)
    probe = next(probes)
    while True:
        outcome = await _once(source, endpoint, probe)
        match next_step(outcome):
            case Step.ANOTHER_PROBE if following := next(probes, None):
                probe = following
            case Step.WAIT if (pause := next(waits, None)) is not None:
                await asyncio.sleep(pause)
            case _:
                return outcome


async def _once(source: Source, endpoint: Endpoint, probe: Probe) -> Completion | ProviderError:
    request = UpstreamRequest(probe_body(endpoint, probe), endpoint.model_path, stream=False, wants_usage=False)
    try:
        async with source.open(Rollout(0, 0), request) as reply:
            return read_completion(reply.status, await reply.read(), reply.retry_after)
    except CallFailed as failure:
        return failure.error


def _printable(endpoint: Endpoint, outcome: Completion | ProviderError, redactor: Redactor | None) -> str:
    if isinstance(outcome, Completion):
        return ""
    text = redactor.text(outcome.message) if redactor is not None else outcome.message
    return one_line(KeyRedactor([endpoint.api_key] if endpoint.api_key else []).text(text))

"""Which source of answers a model needs: the one place that knows them all (E31, E32, ruling 20)."""

from __future__ import annotations

from osmosis.pure.providers import Endpoint, Wire
from osmosis.pure.retry_policy import BACKOFF_SECONDS
from osmosis.shell.bridge.responses import Responses
from osmosis.shell.bridge.source import OnWait, Source
from osmosis.shell.bridge.upstream import Upstream


def source_for(
    endpoint: Endpoint,
    *,
    backoff: tuple[float, ...] = BACKOFF_SECONDS,
    on_wait: OnWait = lambda *_: None,
) -> Source:
    """The source for `endpoint`. `on_wait` hears of each wait before a further try.

    Must be called inside a running event loop. A native provider costs the import of LiteLLM.
    """
    match endpoint.wire:
        case Wire.NATIVE:
            from osmosis.shell.bridge.native import Native  # noqa: PLC0415 - brings LiteLLM

            return Native(endpoint, backoff=backoff, on_wait=on_wait)
        case Wire.RESPONSES:
            return Responses(Upstream(endpoint, backoff=backoff, on_wait=on_wait))
        case Wire.CHAT:
            return Upstream(endpoint, backoff=backoff, on_wait=on_wait)

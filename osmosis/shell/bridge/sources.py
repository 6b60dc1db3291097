"""Which source of answers a model needs: the one place that knows them all (E31, E32, ruling 20)."""

from __future__ import annotations

from collections.abc import Callable

from osmosis.pure.providers import Endpoint, Wire
from osmosis.pure.retry_policy import BACKOFF_SECONDS
from osmosis.shell.bridge.responses import Responses
from osmosis.shell.bridge.source import Source
from osmosis.shell.bridge.upstream import Upstream


def source_for(
    endpoint: Endpoint,
    *,
    backoff: tuple[float, ...] = BACKOFF_SECONDS,
    on_wait: Callable[[float | None], None] = lambda _: None,
) -> Source:
    """The source for `endpoint`. `on_wait` hears the seconds before a further try, and None when they are over.

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

"""Where answers come from: a provider or a cassette. The listener serves both in the same way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from osmosis.pure.completion import BAD_GATEWAY, ProviderError
from osmosis.pure.reasoning_memory import Memory
from osmosis.pure.request_policy import UpstreamRequest
from osmosis.pure.usage import CallUsage
from osmosis.shell.bridge.repeats import Repeats
from osmosis.shell.bridge.tracing import CallSpan

ANSWER_LIMIT = 64 * 1024 * 1024
"""Longest whole answer, in bytes."""

EVENT_LIMIT = 16 * 1024 * 1024
"""Longest single event of a stream, in bytes."""


class CallFailed(Exception):
    """A call that brought no completion; `error` says what the rollout gets."""

    def __init__(self, error: ProviderError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(slots=True)
class Rollout:
    """What the bridge knows about one rollout while it runs.

    `costs` are the US dollars of each finished call, None where they are not known. `digests` counts equal requests, for the
    cassette's ordinals; `repeats` is what clients may come back for, `memory` the reasoning that they may
    leave out. `waited_for` counts the clients that wait for an answer; `tasks` is all that ends with the rollout, which may be
    two for one of them.
    """

    source_row: int
    run_index: int
    id: str = ""
    usage: list[CallUsage] = field(default_factory=list)
    costs: list[float | None] = field(default_factory=list)
    digests: Counter[str] = field(default_factory=Counter)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    waited_for: int = 0
    repeats: Repeats = field(default_factory=Repeats)
    memory: Memory = field(default_factory=dict)
    closed: bool = False


@dataclass(slots=True)
class Reply:
    """An answer that has begun: its HTTP status, the headers that matter, and its body as it arrives.

    `recorded`: it comes from a cassette. `span` is the call's where it is traced.
    """

    status: int
    content_type: str
    retry_after: str | None
    chunks: AsyncIterator[bytes]
    recorded: bool = False
    span: CallSpan | None = None

    async def read(self) -> bytes:
        """The whole body. Raises CallFailed when it is longer than ANSWER_LIMIT or ends early."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks:
            size += len(chunk)
            if size > ANSWER_LIMIT:
                raise CallFailed(ProviderError(BAD_GATEWAY, f"the provider's answer is longer than {ANSWER_LIMIT} bytes"))
            parts.append(chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)


OnWait = Callable[[float | None, int | None], None]
"""Called with the seconds before a further try and the status that is waited for; with None when they are over."""


class Source(Protocol):
    """Something that answers calls."""

    def open(self, rollout: Rollout, request: UpstreamRequest, /) -> AbstractAsyncContextManager[Reply]:
        """Begin a call; leaving the context abandons what is left of the answer. Raises CallFailed."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...

"""Answers from a cassette: no network, no key, and never a live call (ruling 21), unless somebody else is to answer the rest.

With another source behind it (`--replay-or-record`) a call that the cassette does not hold goes there. Held answers to equal
requests of a rollout are used up first, so the calls that are new get the numbers that follow, whatever their timing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from osmosis.pure.canonical import decode_json
from osmosis.pure.cassette import CallKey, Cassette, Missing, RecordedCall, find, request_digest, stream_text
from osmosis.pure.completion import ProviderError
from osmosis.pure.request_policy import UpstreamRequest
from osmosis.shell.bridge.source import CallFailed, Reply, Rollout, Source

KEPT_MISSING = 100
"""How many explanations are kept for the run's report; a rollout may ask in a loop."""


class Replay:
    """A cassette, as a source of answers.

    `missing` holds the first requests that it had no answer for, in order; `missing_count` counts them all.
    """

    def __init__(self, cassette: Cassette, otherwise: Source | None = None) -> None:
        self._cassette = cassette
        self._otherwise = otherwise
        self.missing: list[Missing] = []
        self.missing_count = 0

    @asynccontextmanager
    async def open(self, rollout: Rollout, request: UpstreamRequest) -> AsyncIterator[Reply]:
        """The recorded answer to `request`. Raises CallFailed (404) with what differs when there is none."""
        asked = decode_json(request.body)
        digest = request_digest(asked)
        key = CallKey(rollout.source_row, rollout.run_index, digest, rollout.digests[digest])
        if self._otherwise is not None and key not in self._cassette.calls:
            async with self._otherwise.open(rollout, request) as reply:
                yield reply
            return
        rollout.digests[digest] += 1
        found = find(self._cassette, key, asked)
        if isinstance(found, Missing):
            self.missing_count += 1
            if len(self.missing) < KEPT_MISSING:
                self.missing.append(found)
            raise CallFailed(ProviderError(404, found.explanation))
        yield _reply(found)

    async def close(self) -> None:
        """Close the source behind."""
        if self._otherwise is not None:
            await self._otherwise.close()


def _reply(call: RecordedCall) -> Reply:
    if call.events is not None:
        return Reply(call.status, "text/event-stream", None, _once(stream_text(call.events)), recorded=True)
    body = call.body if isinstance(call.body, str) else json.dumps(call.body, ensure_ascii=False, separators=(",", ":"))
    return Reply(call.status, "application/json", None, _once(body.encode("utf-8", "surrogatepass")), recorded=True)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body

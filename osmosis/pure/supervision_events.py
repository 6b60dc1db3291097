"""The vocabulary of the supervisor: events that the shell reports and effects that it performs.

Every event carries `at`, the wall-clock time at which the shell saw it, as ISO 8601 UTC; times in records come from there.
Durations are milliseconds from the dispatch of the rollout.
"""

from __future__ import annotations

import msgspec

from osmosis.pure.journal import Record, Result, WorkItem
from osmosis.pure.outcome import Outcome
from osmosis.pure.usage import CallUsage


class Ready(msgspec.Struct, frozen=True):
    """The rollout server is healthy. `capacity` is how many rollouts it takes at once, None when it does not say."""

    at: str
    capacity: int | None


class Returned(msgspec.Struct, frozen=True):
    """A rollout ended. `outcome` is None when it was cancelled or nothing more will be heard of it."""

    at: str
    rollout_id: str
    outcome: Outcome | None
    duration_ms: float
    calls: tuple[CallUsage, ...] | None = None
    cost_usd: float | None = None


class Refused(msgspec.Struct, frozen=True):
    """The server refused to take the rollout, with a status that no retry mends."""

    at: str
    rollout_id: str
    detail: str
    duration_ms: float


class DeadlinePassed(msgspec.Struct, frozen=True):
    """The rollout did not end within `seconds` of its dispatch."""

    at: str
    rollout_id: str
    seconds: float
    duration_ms: float
    calls: tuple[CallUsage, ...] | None = None
    cost_usd: float | None = None


class Committed(msgspec.Struct, frozen=True):
    """The results of these rollouts are durable."""

    at: str
    rollout_ids: tuple[str, ...]


class JournalFailed(msgspec.Struct, frozen=True):
    """The journal cannot be written any more. What was not reported durable may or may not be; the next start reads it."""

    at: str
    reason: str


class ServerLost(msgspec.Struct, frozen=True):
    """The rollout server exited by itself."""

    at: str
    reason: str


class Fault(msgspec.Struct, frozen=True):
    """Something that concerns the whole run: the key was rejected, the tunnel died, the disk is full."""

    at: str
    reason: str


class ContactLost(msgspec.Struct, frozen=True):
    """The rollout server answers nonsense or nothing any more to questions about this rollout; it may still run."""

    at: str
    rollout_id: str
    reason: str


class Interrupted(msgspec.Struct, frozen=True):
    """Ctrl-C, SIGTERM or SIGHUP."""

    at: str


class Stopped(msgspec.Struct, frozen=True):
    """The rollout server, the listener and the tunnel are stopped."""

    at: str


Event = (
    Ready
    | Returned
    | Refused
    | DeadlinePassed
    | Committed
    | JournalFailed
    | ServerLost
    | ContactLost
    | Fault
    | Interrupted
    | Stopped
)


class Append(msgspec.Struct, frozen=True):
    """Append to the journal; it may become durable together with what follows."""

    record: Record


class Commit(msgspec.Struct, frozen=True):
    """Append to the journal, make it durable, then report `Committed`. A rollout that is not `over` may still write files."""

    result: Result
    over: bool = True


class Dispatch(msgspec.Struct, frozen=True):
    """Start the rollout of an item."""

    item: WorkItem
    source_row_index: int
    rollout_id: str


class Cancel(msgspec.Struct, frozen=True):
    """Cancel these rollouts and their model calls; report `Returned` for each within `wait` seconds, news or not."""

    rollout_ids: tuple[str, ...]
    wait: float


class Publish(msgspec.Struct, frozen=True):
    """A result is durable: project its files, append it to the index, show it."""

    result: Result


class StopServer(msgspec.Struct, frozen=True):
    """Stop the rollout server, killing it after `grace` seconds, then everything else; report `Stopped`.

    A second one shortens the first.
    """

    grace: float


class RestartServer(msgspec.Struct, frozen=True):
    """The rollout server is gone: start it again and report `Ready`, or `Fault`."""


class Leave(msgspec.Struct, frozen=True):
    """Kill the rollout server and return at once. The journal is safe at any moment."""


Effect = Append | Commit | Dispatch | Cancel | Publish | StopServer | RestartServer | Leave

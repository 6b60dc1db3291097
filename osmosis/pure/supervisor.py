"""The run as a state machine, in the manner of a sans-IO protocol: `advance(state, event) -> (state, effects)`.

The shell performs effects and reports events; it decides nothing (ruling 31). The state is an immutable value whose size
depends on the number of items in flight, never on the length of the run, so any schedule of results, crashes and interrupts
can be simulated without a process or a sleep.

The life of an item. `Dispatch` puts it in flight. A terminal result is sent to the journal (`Commit`) and the item stays in
flight until the shell reports it durable (`Committed`): only then does it count, show, and free its slot (E22). An item that
comes back without a result stays pending and runs in a later invocation.

The life of a run:

    STARTING --Ready--> RUNNING --nothing left--> STOPPING --Stopped--> DONE
        ^                 |  |
        |                 |  +--Interrupted, Fault, ServerLost, JournalFailed--> DRAINING --nothing in flight--> STOPPING
        +---ServerLost----+     ContactLost
            ContactLost
        (the one item in flight ran alone because it was a suspect: it is failed, the server restarted)

- RUNNING: items are dispatched up to the cap. An item that was in flight when the server was lost, twice, runs alone,
  last (ruling 15).
- DRAINING: nothing new is dispatched; what is in flight was asked to cancel. A success that still arrives is kept. A failure
  may be an echo of the cause, so it is not: that item stays pending.
- STOPPING: the rollout server was asked to stop. DONE: how it went stands in `ending` and `reason`.

A server that no longer answers (`ContactLost`) is not waited for: nobody can hear of what it still does, so what is in flight
is dropped at once, under the same suspicion as at a crash, and the server gets no more time than at the end of a finished run.
Contact lost over a rollout that is not in flight any more says nothing new: it is the echo of a server whose exit is known.

Interrupts (E24): the first drains and waits for clean-up; the second abandons what is in flight and gives the server five
seconds; the third leaves at once. A journal that cannot be written ends the run in the same way as a fault, and nothing is
appended after it.

The transitions stand in `_TRANSITIONS` at the end. A pair that is not there changes nothing: late and repeated events are
normal when machines fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import xxhash

from osmosis.pure.journal import Attempt, Ending, InvocationEnded, Result, Status, WorkItem
from osmosis.pure.outcome import Outcome
from osmosis.pure.protocol import ErrorCategory
from osmosis.pure.supervision_events import (
    Append,
    Cancel,
    Commit,
    Committed,
    ContactLost,
    DeadlinePassed,
    Dispatch,
    Effect,
    Event,
    Fault,
    Interrupted,
    JournalFailed,
    Leave,
    Publish,
    Ready,
    Refused,
    RestartServer,
    Returned,
    ServerLost,
    Stopped,
    StopServer,
)
from osmosis.pure.supervision_state import InFlight, Phase, State
from osmosis.pure.usage import CallUsage

GRACE_AFTER_FINISH = 5.0
GRACE_AFTER_HALT = 330.0
CANCEL_WAIT = 120.0
"""Seconds: how long the rollout server may take to stop, and a cancelled rollout to clean up (`eval_local.md` section 12)."""

DEADLINE_MARGIN = 60.0
DEFAULT_DEADLINE = 3600.0


Step = tuple[State, list[Effect]]


def advance(state: State, event: Event) -> Step:
    """The state after `event`, and what to do about it, in order."""
    transition = _TRANSITIONS.get((state.phase, type(event)))
    return transition(state, event) if transition else (state, [])


def item_deadline(agent_timeout_sec: float | None, grader_timeout_sec: float | None) -> float:
    """Seconds from dispatch after which an item is given up: both limits and a minute, or an hour when one is open."""
    if agent_timeout_sec is None or grader_timeout_sec is None:
        return DEFAULT_DEADLINE
    return agent_timeout_sec + grader_timeout_sec + DEADLINE_MARGIN


def rollout_id(invocation_id: str, item: WorkItem, number: int) -> str:
    """The id of an item's attempt: 32 hex digits, unique because the invocation's id is random."""
    return xxhash.xxh3_128_hexdigest(f"{invocation_id}:{item.row_index}:{item.run_index}:{number}".encode())


def patient(state: State) -> bool:
    """Whether the rollout server gets the long time to clean up: after a cancellation that it can still hear of."""
    return state.ending in (Ending.INTERRUPTED, Ending.HALTED) and state.interrupts < 2 and not state.unresponsive


# --- Transitions -------------------------------------------------------------------------------------------------------------


def _start(state: State, event: Ready) -> Step:
    assignment = state.assignment
    cap = assignment.cap(event.capacity)
    effects: list[Effect] = [] if state.began else [Append(msgspec.structs.replace(assignment.invocation, at=event.at))]
    return _go_on(_with(state, phase=Phase.RUNNING, cap=cap, began=True), event.at, effects)


def _finish_item(state: State, event: Returned) -> Step:
    if event.outcome is None:
        return _drop(state, event)
    return _commit(state, event, event.outcome, event.calls, event.cost_usd)


def _refuse_item(state: State, event: Refused) -> Step:
    return _commit(state, event, _failure("rollout_protocol_error", event.detail), None)


def _time_out_item(state: State, event: DeadlinePassed) -> Step:
    outcome = _failure(ErrorCategory.TIMEOUT, f"no result within {event.seconds:g} s of dispatch")
    after, effects = _commit(state, event, outcome, event.calls, event.cost_usd)
    return after, [*effects, Cancel((event.rollout_id,), CANCEL_WAIT)] if effects else effects


def _finish_item_late(state: State, event: Returned) -> Step:
    kept = event.outcome is not None and event.outcome.status is not Status.FAILED and state.journal_ok
    return _finish_item(state, event) if kept else _drop(state, event)


def _publish(state: State, event: Committed) -> Step:
    done = [flight.result for name in event.rollout_ids if (flight := state.in_flight.get(name)) and flight.result]
    tally = state.tally
    for result in done:
        tally = tally.add(result)
    remaining = _without(state, event.rollout_ids)
    return _go_on(_with(state, in_flight=remaining, tally=tally), event.at, [Publish(result) for result in done])


def _drop(state: State, event: Returned | Refused | DeadlinePassed) -> Step:
    """The item leaves without a result and stays pending. One whose result the journal has is past that."""
    flight = state.in_flight.get(event.rollout_id)
    if flight is None or flight.result is not None:
        return state, []
    return _go_on(_with(state, in_flight=_without(state, [event.rollout_id])), event.at)


def _lose_server(state: State, event: ServerLost) -> Step:
    running = {name: flight for name, flight in state.in_flight.items() if flight.result is None}
    if state.alone and len(running) == 1:
        (name,) = running
        return _blame(state, event.at, name, f"the rollout server crashed with only this item in flight: {event.reason}")
    suspects = _items(running)
    halted = _with(state, phase=Phase.DRAINING, ending=Ending.SERVER_CRASH, reason=event.reason, suspects=suspects)
    return _go_on(_with(halted, in_flight=_without(state, running)), event.at)


def _blame(state: State, at: str, name: str, message: str) -> Step:
    """A suspect took the server with it, alone: it is failed, and the server is started again for the others."""
    outcome = _failure("server_crash", message)
    after, effects = _commit(state, Returned(at, name, outcome, 0.0), outcome, None)
    if after.next_item is None:
        return after, effects
    return _with(after, phase=Phase.STARTING), [*effects, RestartServer()]


def _lose_server_late(state: State, event: ServerLost) -> Step:
    running = [name for name, flight in state.in_flight.items() if flight.result is None]
    return _go_on(_with(state, in_flight=_without(state, running)), event.at)


def _halt(state: State, event: Fault) -> Step:
    return _drain(_with(state, ending=Ending.HALTED, reason=event.reason), event.at)


def _lose_contact(state: State, event: ContactLost) -> Step:
    """Nobody will hear of what is in flight any more; results that the journal has are still waited for.

    A rollout that blocks its server for ever, in an endless loop say, is found like one that crashes it.
    """
    flight = state.in_flight.get(event.rollout_id)
    if flight is None or flight.result is not None:
        return state, []
    running = {name: flight for name, flight in state.in_flight.items() if flight.result is None}
    struck = state.phase is Phase.RUNNING
    if struck and state.alone and len(running) == 1:
        reason = f"the rollout server could not be talked to any more with only this item in flight: {event.reason}"
        return _blame(state, event.at, event.rollout_id, reason)
    why = {"ending": state.ending or Ending.HALTED, "reason": state.reason or event.reason}
    suspects = _items(running) if struck else state.suspects
    lost = _with(state, phase=Phase.DRAINING, unresponsive=True, suspects=suspects, **why)
    return _go_on(_with(lost, in_flight=_without(state, running)), event.at)


def _lose_journal(state: State, event: JournalFailed) -> Step:
    running = {name: flight for name, flight in state.in_flight.items() if flight.result is None}
    ending = {"ending": state.ending or Ending.HALTED, "reason": state.reason or event.reason}
    return _drain(_with(state, in_flight=running, journal_ok=False, **ending), event.at)


def _interrupt(state: State, event: Interrupted) -> Step:
    return _drain(_with(state, ending=Ending.INTERRUPTED, interrupts=1), event.at)


def _interrupt_again(state: State, event: Interrupted) -> Step:
    """An interrupt while the run is already ending: the first only counts, the second cuts the wait, the third leaves."""
    state = _with(state, interrupts=state.interrupts + 1)
    if state.interrupts == 1:
        return state, []
    if state.interrupts > 2:
        return _with(state, phase=Phase.DONE, ending=state.ending or Ending.INTERRUPTED), [Leave()]
    if state.phase is Phase.STOPPING:
        return state, [StopServer(GRACE_AFTER_FINISH)]
    recording = {name: flight for name, flight in state.in_flight.items() if flight.result is not None}
    return _go_on(_with(state, in_flight=recording), event.at)


def _finish(state: State, event: Stopped) -> Step:
    return _with(state, phase=Phase.DONE), []


# --- Their common steps -------------------------------------------------------------------------------------------------------


def _with(state: State, **changes: Any) -> State:
    return msgspec.structs.replace(state, **changes)


def _items(flights: Mapping[str, InFlight]) -> tuple[WorkItem, ...]:
    return tuple(sorted(flight.item for flight in flights.values()))


def _without(state: State, rollout_ids: Iterable[str]) -> dict[str, InFlight]:
    gone = set(rollout_ids)
    return {name: flight for name, flight in state.in_flight.items() if name not in gone}


def _failure(error_type: str, message: str) -> Outcome:
    return Outcome(status=Status.FAILED, error_type=error_type, error_message=message)


def _commit(
    state: State,
    event: Returned | Refused | DeadlinePassed,
    outcome: Outcome,
    calls: tuple[CallUsage, ...] | None,
    cost_usd: float | None = None,
) -> Step:
    flight = state.in_flight.get(event.rollout_id)
    if flight is None or flight.result is not None:
        return state, []
    result = Result(
        item=flight.item,
        source_row_index=state.assignment.source_rows[flight.item.row_index],
        rollout_id=event.rollout_id,
        status=outcome.status,
        at=event.at,
        duration_ms=event.duration_ms,
        reward=outcome.reward,
        error_type=outcome.error_type,
        error_message=outcome.error_message,
        calls=calls,
        cost_usd=cost_usd,
    )
    in_flight = {**state.in_flight, event.rollout_id: InFlight(flight.item, result)}
    return _with(state, in_flight=in_flight), [Commit(result, over=not isinstance(event, DeadlinePassed))]


def _drain(state: State, at: str) -> Step:
    running = tuple(name for name, flight in state.in_flight.items() if flight.result is None)
    already = state.phase is Phase.DRAINING
    effects: list[Effect] = [Cancel(running, CANCEL_WAIT)] if running and not already else []
    return _go_on(_with(state, phase=Phase.DRAINING), at, effects)


def _go_on(state: State, at: str, effects: Iterable[Effect] = ()) -> Step:
    """Dispatch what there is room for; when nothing is in flight and nothing left to dispatch, end the invocation."""
    effects = list(effects)
    in_flight = dict(state.in_flight)
    cursor = state.cursor
    assignment = state.assignment
    while state.phase is Phase.RUNNING and (item := state.next_item) is not None and len(in_flight) < _room(state):
        number = assignment.attempts.get(item, 0) + 1
        name = rollout_id(assignment.invocation.id, item, number)
        in_flight[name] = InFlight(item)
        cursor += 1
        state = _with(state, in_flight=in_flight, cursor=cursor)
        effects += [Append(Attempt(item, name, number, at)), Dispatch(item, assignment.source_rows[item.row_index], name)]
    idle = state.phase is Phase.DRAINING or (state.phase is Phase.RUNNING and state.next_item is None)
    return _stop(state, at, effects) if idle and not state.in_flight else (state, effects)


def _room(state: State) -> int:
    together = state.cursor < len(state.assignment.workload.together)
    return state.cap if together else 1


def _stop(state: State, at: str, effects: list[Effect]) -> Step:
    finished = state.ending is None and state.tally.done >= state.assignment.total_items
    ending = state.ending or (Ending.FINISHED if finished else Ending.HALTED)
    reason = state.reason or (None if ending is not Ending.HALTED else "some items were cancelled and are still pending")
    if state.journal_ok and state.began:
        effects.append(Append(InvocationEnded(at, ending, state.suspects)))
    state = _with(state, phase=Phase.STOPPING, ending=ending, reason=reason)
    effects.append(StopServer(GRACE_AFTER_HALT if patient(state) else GRACE_AFTER_FINISH))
    return state, effects


_TRANSITIONS: Mapping[tuple[Phase, type[Event]], Callable[[State, Any], Step]] = {
    (Phase.STARTING, Ready): _start,
    (Phase.STARTING, Committed): _publish,
    (Phase.STARTING, JournalFailed): _lose_journal,
    (Phase.STARTING, ServerLost): _halt,
    (Phase.STARTING, Fault): _halt,
    (Phase.STARTING, Interrupted): _interrupt,
    (Phase.RUNNING, Returned): _finish_item,
    (Phase.RUNNING, Refused): _refuse_item,
    (Phase.RUNNING, DeadlinePassed): _time_out_item,
    (Phase.RUNNING, Committed): _publish,
    (Phase.RUNNING, JournalFailed): _lose_journal,
    (Phase.RUNNING, ServerLost): _lose_server,
    (Phase.RUNNING, Fault): _halt,
    (Phase.RUNNING, ContactLost): _lose_contact,
    (Phase.RUNNING, Interrupted): _interrupt,
    (Phase.DRAINING, Returned): _finish_item_late,
    (Phase.DRAINING, Refused): _drop,
    (Phase.DRAINING, DeadlinePassed): _drop,
    (Phase.DRAINING, Committed): _publish,
    (Phase.DRAINING, JournalFailed): _lose_journal,
    (Phase.DRAINING, ContactLost): _lose_contact,
    (Phase.DRAINING, ServerLost): _lose_server_late,
    (Phase.DRAINING, Interrupted): _interrupt_again,
    (Phase.STOPPING, Interrupted): _interrupt_again,
    (Phase.STOPPING, Stopped): _finish,
}

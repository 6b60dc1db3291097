"""The run as a state machine, driven through every order of events that machines produce.

`RunMachine` is a shell without a machine: its disk keeps what was synced, its rollouts end when Hypothesis says so, and it may
be killed between any two events. Whatever happens, no durable success is run again, nothing is lost or doubled, the cap holds.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from osmosis.pure.journal import (
    Ending,
    InvocationEnded,
    InvocationStarted,
    JournalDecoder,
    Record,
    Result,
    RunHistory,
    Status,
    WorkItem,
    encode_record,
)
from osmosis.pure.outcome import Outcome
from osmosis.pure.plan import work_items
from osmosis.pure.resume import STRIKES_BEFORE_ALONE, Workload, workload
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
from osmosis.pure.supervision_state import Assignment, Phase, State, begin, progress
from osmosis.pure.supervisor import GRACE_AFTER_FINISH, GRACE_AFTER_HALT, advance, item_deadline

AT = "2026-11-30T12:35:44.521865Z"
SUCCESS = Outcome(Status.SUCCESS, reward=1.0)
FAILURE = Outcome(Status.FAILED, error_type="agent_error", error_message="it broke")
SKIP = Outcome(Status.SKIPPED)
OUTCOMES = st.sampled_from([SUCCESS, SUCCESS, FAILURE, SKIP, None])


class Disk:
    """A journal file: what was synced survives everything, what was only written may be cut anywhere."""

    def __init__(self) -> None:
        self.synced = b""
        self.written = b""
        self.sequence = 0

    def write(self, record: Record) -> None:
        self.sequence += 1
        self.written += encode_record(record, self.sequence)

    def sync(self) -> None:
        self.synced += self.written
        self.written = b""

    def read(self, total: int) -> RunHistory:
        decoder = JournalDecoder("events.jsonl")
        history = RunHistory(total)
        for record in decoder.feed(self.synced):
            history.add(record)
        self.synced = self.synced[: decoder.offset]
        self.sequence = decoder.count
        return history

    def crash(self, kept: int) -> None:
        self.synced += self.written[:kept]
        self.written = b""


class RunMachine(RuleBasedStateMachine):
    """One run over any number of invocations."""

    @initialize(
        rows=st.integers(1, 4), n=st.integers(1, 3), capacity=st.none() | st.integers(1, 4), limit=st.none() | st.integers(1, 5)
    )
    def plan(self, rows: int, n: int, capacity: int | None, limit: int | None) -> None:
        self.items = list(work_items(rows, n))
        self.capacity, self.limit = capacity, limit
        self.disk = Disk()
        self.invocations = 0
        self.state: State | None = None
        self.work = Workload(())
        self.succeeded: set[WorkItem] = set()
        self.reset()

    def reset(self) -> None:
        self.running: dict[str, WorkItem] = {}
        self.uncommitted: list[str] = []
        self.cancelled: set[str] = set()
        self.stops: list[float] = []
        self.restarting = False
        self.journal_works = True
        self.published: set[str] = set()

    # --- The shell ---

    def start(self, *, retry_failed: bool) -> None:
        history = self.disk.read(len(self.items))
        self.succeeded = {item for item, result in history.results.items() if result.status is Status.SUCCESS}
        self.work = workload(self.items, history, retry_failed=retry_failed)
        if not self.work.size:
            assert history.finished
            return
        self.invocations += 1
        self.reset()
        assignment = Assignment(
            invocation=InvocationStarted(f"{self.invocations:032x}", AT, "0.3.10", retry_failed=retry_failed),
            workload=self.work,
            source_rows=tuple(range(len(self.items))),
            total_items=len(self.items),
            attempts=history.attempts,
            max_in_flight=self.limit,
        )
        self.state = begin(assignment, history, pass_threshold=1.0)
        self.tell(Ready(AT, self.capacity))

    def tell(self, event: Event) -> None:
        assert self.state is not None
        self.state, effects = advance(self.state, event)
        for effect in effects:
            self.perform(effect)
        if self.state.phase is Phase.DONE:
            self.disk.sync()
            if self.state.ending is Ending.FINISHED:
                assert self.disk.read(len(self.items)).finished
            self.state = None

    def perform(self, effect: Effect) -> None:
        match effect:
            case Append(record):
                assert self.journal_works
                self.disk.write(record)
            case Commit(result):
                assert self.journal_works
                self.disk.write(result)
                self.running.pop(result.rollout_id, None)
                self.uncommitted.append(result.rollout_id)
            case Dispatch(item, _, rollout_id):
                assert item not in self.succeeded, "a durable success was run again"
                assert item not in self.running.values(), "an item was dispatched twice"
                assert rollout_id not in self.running
                self.running[rollout_id] = item
                self.check_cap(item)
            case Cancel(rollout_ids, _):
                self.cancelled |= set(rollout_ids) & self.running.keys()
            case Publish(result):
                assert result.rollout_id not in self.published, "a result was published twice"
                assert encode_record(result, 1)[9:-30] in self.disk.synced, "a result was shown before it was durable"
                self.published.add(result.rollout_id)
                if result.status is Status.SUCCESS:
                    self.succeeded.add(result.item)
            case StopServer(grace):
                self.stops.append(grace)
            case RestartServer():
                self.restarting = True
            case Leave():
                self.running.clear()

    def check_cap(self, dispatched: WorkItem) -> None:
        assert self.state is not None
        most = self.limit or self.capacity or 1
        most = min(most, self.capacity) if self.capacity else most
        busy = len(self.running) + len(self.uncommitted)
        assert busy <= most, "more items in flight than the cap allows"
        if dispatched in self.work.alone:
            assert busy == 1, "a suspect does not run alone"

    # --- What machines do ---

    @precondition(lambda self: self.state is None)
    @rule(retry_failed=st.booleans())
    def begin_invocation(self, retry_failed: bool) -> None:
        self.start(retry_failed=retry_failed)

    @precondition(lambda self: self.state is not None and self.running)
    @rule(data=st.data(), outcome=OUTCOMES)
    def rollout_ends(self, data: st.DataObject, outcome: Outcome | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.running)))
        self.running.pop(name)
        self.tell(Returned(AT, name, outcome, 5.0))

    @precondition(lambda self: self.state is not None and self.running)
    @rule(data=st.data(), late=st.booleans())
    def rollout_is_refused_or_late(self, data: st.DataObject, late: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.running)))
        self.tell(DeadlinePassed(AT, name, 60.0, 60_000.0) if late else Refused(AT, name, "status 422", 1.0))
        self.running.pop(name, None)

    @precondition(lambda self: self.state is not None and self.uncommitted and self.journal_works)
    @rule(data=st.data())
    def disk_syncs(self, data: st.DataObject) -> None:
        self.disk.sync()
        done, self.uncommitted = tuple(self.uncommitted), []
        self.tell(Committed(AT, done))

    @precondition(lambda self: self.state is not None and self.journal_works)
    @rule(kept=st.integers(0, 400))
    def disk_fails(self, kept: int) -> None:
        self.disk.crash(kept)
        self.journal_works = False
        self.uncommitted = []
        self.tell(JournalFailed(AT, "no space left on device"))

    @precondition(lambda self: self.state is not None and not self.stops and not self.restarting)
    @rule()
    def server_dies(self) -> None:
        self.running.clear()
        self.tell(ServerLost(AT, "exit code 1"))

    @precondition(lambda self: self.state is not None and self.running)
    @rule(data=st.data())
    def contact_is_lost(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.running)))
        self.running.clear()
        self.tell(ContactLost(AT, name, "no answer"))

    @precondition(lambda self: self.state is not None and self.restarting)
    @rule(works=st.booleans())
    def server_restarts(self, works: bool) -> None:
        self.restarting = False
        self.tell(Ready(AT, self.capacity) if works else Fault(AT, "it does not start again"))

    @precondition(lambda self: self.state is not None)
    @rule()
    def key_is_rejected(self) -> None:
        self.tell(Fault(AT, "the provider rejected the key"))

    @precondition(lambda self: self.state is not None)
    @rule()
    def signal_arrives(self) -> None:
        self.tell(Interrupted(AT))

    @precondition(lambda self: self.state is not None and self.stops)
    @rule()
    def server_stops(self) -> None:
        self.running.clear()
        self.tell(Stopped(AT))

    @precondition(lambda self: self.state is not None)
    @rule(data=st.data())
    def stale_events_arrive(self, data: st.DataObject) -> None:
        stale = data.draw(st.sampled_from(["f" * 32, *sorted(self.published)]))
        events: list[Event] = [Returned(AT, stale, SUCCESS, 1.0), Committed(AT, (stale,)), Refused(AT, stale, "", 1.0)]
        events.append(ContactLost(AT, stale, "an echo"))
        self.tell(data.draw(st.sampled_from(events)))

    @precondition(lambda self: self.state is not None)
    @rule(kept=st.integers(0, 2000))
    def supervisor_is_killed(self, kept: int) -> None:
        self.disk.crash(kept)
        self.state = None

    # --- What always holds ---

    @invariant()
    def counts_add_up(self) -> None:
        state: State | None = getattr(self, "state", None)
        if state is None:
            return
        shown = progress(state)
        assert shown.done == shown.succeeded + shown.failed + shown.skipped <= shown.total
        assert shown.in_flight + shown.done <= shown.total

    def teardown(self) -> None:
        """However it went, invocations in which everything works bring the run to its end, each item with one result."""
        if not hasattr(self, "items"):
            return
        if self.state is not None:
            self.supervisor_is_killed(0)
        self.start(retry_failed=False)
        while self.state is not None:
            if self.running:
                name = min(self.running)
                self.running.pop(name)
                self.tell(Returned(AT, name, SUCCESS, 1.0))
            elif self.uncommitted:
                self.disk.sync()
                done, self.uncommitted = tuple(self.uncommitted), []
                self.tell(Committed(AT, done))
            else:
                assert self.stops == [GRACE_AFTER_FINISH]
                self.tell(Stopped(AT))
        history = self.disk.read(len(self.items))
        assert sorted(history.results) == self.items


TestRun = RunMachine.TestCase
TestRun.settings = settings(stateful_step_count=40)


@pytest.mark.slow
def test_thousands_of_schedules() -> None:
    """The same machine, for three thousand schedules."""
    run_state_machine_as_test(RunMachine, settings=settings(max_examples=3000, stateful_step_count=40))


# --- Single promises ----------------------------------------------------------------------------------------------------------


def fresh(items: int = 3, *, cap: int = 2, alone: int = 0) -> tuple[State, list[Effect]]:
    """A run of `items` rows that just became ready, the last `alone` of them suspects."""
    everything = tuple(work_items(items, 1))
    work = Workload(everything[: items - alone], everything[items - alone :])
    started = InvocationStarted("0" * 32, AT, "0.3.10")
    assignment = Assignment(started, work, tuple(range(items)), items, {}, max_in_flight=cap)
    return advance(begin(assignment, RunHistory(items), 1.0), Ready(AT, None))


def dispatched(effects: list[Effect]) -> list[str]:
    """The rollout ids that were dispatched."""
    return [effect.rollout_id for effect in effects if isinstance(effect, Dispatch)]


def committed(effects: list[Effect]) -> list[Result]:
    """The results that were sent to the journal."""
    return [effect.result for effect in effects if isinstance(effect, Commit)]


def endings(effects: list[Effect]) -> list[InvocationEnded]:
    """The records that end the invocation."""
    records = [effect.record for effect in effects if isinstance(effect, Append)]
    return [record for record in records if isinstance(record, InvocationEnded)]


def test_an_attempt_is_recorded_before_its_dispatch() -> None:
    """Each dispatch follows its attempt record, and the first follows the record of the invocation (ruling 1)."""
    _, effects = fresh()
    kinds = [type(effect.record).__name__ if isinstance(effect, Append) else type(effect).__name__ for effect in effects]
    assert kinds == ["InvocationStarted", "Attempt", "Dispatch", "Attempt", "Dispatch"]


def test_a_slot_is_free_only_when_the_result_is_durable() -> None:
    """A result that arrived but is not yet durable keeps its slot (E22)."""
    state, effects = fresh()
    first, _ = dispatched(effects)
    state, effects = advance(state, Returned(AT, first, SUCCESS, 1.0))
    assert [result.rollout_id for result in committed(effects)] == [first]
    assert not dispatched(effects)
    state, effects = advance(state, Committed(AT, (first,)))
    assert [type(effect) for effect in effects] == [Publish, Append, Dispatch]


def test_a_crash_strikes_what_was_in_flight_and_halts() -> None:
    """The suspects stand in the record that ends the invocation; nothing is failed (ruling 15)."""
    state, _ = fresh()
    state, effects = advance(state, ServerLost(AT, "signal SIGSEGV"))
    (end,) = endings(effects)
    assert (end.ending, end.in_flight) == (Ending.SERVER_CRASH, (WorkItem(0, 0), WorkItem(1, 0)))
    assert not committed(effects)


def test_a_suspect_alone_at_the_crash_is_failed_and_the_rest_goes_on() -> None:
    """Only an item alone at the crash is failed; the server is restarted for the others (ruling 15)."""
    state, effects = fresh(2, alone=2)
    (suspect,) = dispatched(effects)
    state, effects = advance(state, ServerLost(AT, "signal SIGSEGV"))
    (failed,) = committed(effects)
    assert (failed.rollout_id, failed.error_type) == (suspect, "server_crash")
    assert RestartServer() in effects
    state, _ = advance(state, Committed(AT, (suspect,)))
    state, effects = advance(state, Ready(AT, None))
    assert len(dispatched(effects)) == 1


def test_silence_strikes_what_was_in_flight_and_halts() -> None:
    """A rollout may block its server for ever: whoever was in flight is a suspect as at a crash, and nothing is failed."""
    state, effects = fresh()
    first, _ = dispatched(effects)
    state, effects = advance(state, ContactLost(AT, first, "no answer"))
    (end,) = endings(effects)
    assert (end.ending, end.in_flight) == (Ending.HALTED, (WorkItem(0, 0), WorkItem(1, 0)))
    assert not committed(effects)


def test_silence_after_an_interrupt_strikes_nobody() -> None:
    """A server that goes deaf while it is told to stop says nothing about its rollouts."""
    state, effects = fresh()
    first, _ = dispatched(effects)
    state, _ = advance(state, Interrupted(AT))
    state, effects = advance(state, ContactLost(AT, first, "no answer"))
    (end,) = endings(effects)
    assert (end.ending, end.in_flight) == (Ending.INTERRUPTED, ())


def test_a_suspect_that_silences_the_server_alone_is_failed_and_the_rest_goes_on() -> None:
    """Otherwise one endless loop would end every invocation, and the run would never finish."""
    state, effects = fresh(2, alone=2)
    (suspect,) = dispatched(effects)
    state, effects = advance(state, ContactLost(AT, suspect, "no answer within 40 s"))
    (failed,) = committed(effects)
    assert (failed.rollout_id, failed.error_type) == (suspect, "server_crash")
    assert failed.error_message is not None
    assert failed.error_message.endswith("with only this item in flight: no answer within 40 s")
    assert RestartServer() in effects
    assert advance(state, Returned(AT, suspect, None, 1.0)) == (state, [])
    state, _ = advance(state, Committed(AT, (suspect,)))
    state, effects = advance(state, Ready(AT, None))
    (last,) = dispatched(effects)
    state, effects = advance(state, ContactLost(AT, last, "no answer"))
    state, effects = advance(state, Committed(AT, (last,)))
    assert [effect.grace for effect in effects if isinstance(effect, StopServer)] == [GRACE_AFTER_FINISH]
    assert state.ending is Ending.FINISHED


def test_suspects_run_alone_after_two_strikes() -> None:
    """One crash proves nothing; after the second the items that were in flight both times run alone, last."""
    history = RunHistory(2)
    history.strikes = {WorkItem(0, 0): STRIKES_BEFORE_ALONE, WorkItem(1, 0): STRIKES_BEFORE_ALONE - 1}
    assert workload(work_items(2, 1), history, retry_failed=False) == Workload((WorkItem(1, 0),), (WorkItem(0, 0),))


def test_interrupts_grow_shorter() -> None:
    """The first waits for clean-up, the second gives the server five seconds, the third leaves at once (E24)."""
    state, effects = fresh()
    names = dispatched(effects)
    state, effects = advance(state, Interrupted(AT))
    assert [effect.rollout_ids for effect in effects if isinstance(effect, Cancel)] == [tuple(names)]
    state, effects = advance(state, Interrupted(AT))
    assert [effect.grace for effect in effects if isinstance(effect, StopServer)] == [GRACE_AFTER_FINISH]
    state, effects = advance(state, Interrupted(AT))
    assert effects == [Leave()]
    assert state.phase is Phase.DONE


def test_a_second_interrupt_shortens_a_stop_under_way() -> None:
    """Once everything in flight is gone the second interrupt still cuts the server's long grace to five seconds."""
    state, effects = fresh(1)
    (name,) = dispatched(effects)
    state, _ = advance(state, Interrupted(AT))
    state, effects = advance(state, Returned(AT, name, None, 1.0))
    assert [effect.grace for effect in effects if isinstance(effect, StopServer)] == [GRACE_AFTER_HALT]
    _, effects = advance(state, Interrupted(AT))
    assert effects == [StopServer(GRACE_AFTER_FINISH)]


@pytest.mark.parametrize(("outcome", "kept"), [(SUCCESS, True), (SKIP, True), (FAILURE, False), (None, False)])
def test_what_arrives_while_draining(outcome: Outcome | None, kept: bool) -> None:
    """A finished rollout is kept; a failure may be an echo of the cancellation, so that item stays pending."""
    state, effects = fresh(1)
    (name,) = dispatched(effects)
    state, _ = advance(state, Fault(AT, "the provider rejected the key"))
    _, effects = advance(state, Returned(AT, name, outcome, 1.0))
    assert bool(committed(effects)) is kept


def test_a_server_that_dies_while_draining_ends_the_wait() -> None:
    """Nobody is left to acknowledge the cancellation; the items stay pending and nobody is struck."""
    state, _ = fresh()
    state, _ = advance(state, Interrupted(AT))
    state, effects = advance(state, ServerLost(AT, "exit code 1"))
    (end,) = endings(effects)
    assert (end.ending, end.in_flight, state.phase) == (Ending.INTERRUPTED, (), Phase.STOPPING)


def test_a_deadline_fails_the_item_and_not_the_run() -> None:
    """The item is failed as timed out and its rollout cancelled; the others go on."""
    state, effects = fresh()
    first, _ = dispatched(effects)
    state, effects = advance(state, DeadlinePassed(AT, first, 60.0, 60_000.0))
    assert [result.error_type for result in committed(effects)] == ["timeout"]
    assert [effect.rollout_ids for effect in effects if isinstance(effect, Cancel)] == [(first,)]
    assert state.phase is Phase.RUNNING


def test_deadlines() -> None:
    """Both limits and a minute, or an hour when one is open (`eval_local.md` section 6)."""
    assert item_deadline(450, 150) == 660
    assert item_deadline(None, 150) == item_deadline(450, None) == 3600

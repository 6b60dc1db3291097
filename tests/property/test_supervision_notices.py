"""What a person is told when a run begins to end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.journal import InvocationStarted, RunHistory, Status, WorkItem
from osmosis.pure.outcome import Outcome
from osmosis.pure.plan import work_items
from osmosis.pure.resume import Workload, still_to_run, workload
from osmosis.pure.supervision_events import (
    Append,
    Commit,
    Committed,
    ContactLost,
    Dispatch,
    Effect,
    Event,
    Fault,
    Interrupted,
    JournalFailed,
    Ready,
    Returned,
    ServerLost,
    Stopped,
    StopServer,
)
from osmosis.pure.supervision_notices import notice
from osmosis.pure.supervision_state import Assignment, Phase, State, begin
from osmosis.pure.supervisor import GRACE_AFTER_FINISH, advance, rollout_id

AT = "2026-11-30T12:35:44.521865Z"
SUCCESS = Outcome(Status.SUCCESS, reward=1.0)


def fresh(items: int = 2) -> tuple[State, list[str]]:
    """A run of `items` items, all in flight: the state and their rollout ids."""
    history = RunHistory(items)
    work = workload(work_items(items, 1), history, retry_failed=False)
    assignment = Assignment(InvocationStarted("i", AT, "0.3.10"), work, tuple(range(items)), items, {}, max_in_flight=items)
    state, effects = advance(begin(assignment, history, 1.0), Ready(AT, None))
    return state, [effect.rollout_id for effect in effects if isinstance(effect, Dispatch)]


def tell(state: State, event: Event) -> tuple[State, list[Effect], str | None]:
    """The next state, the effects, and what is said about it."""
    after, effects = advance(state, event)
    return after, effects, notice(state, after)


def test_three_interrupts_are_told_apart() -> None:
    """Each says what happens now and what the next one would do."""
    state, _ = fresh()
    texts = []
    for _ in range(3):
        state, _, text = tell(state, Interrupted(AT))
        texts.append(text)
    assert texts == [
        "interrupted: cancelling 2 rollouts; up to 120 s for clean-up. Ctrl-C again to wait 5 s only",
        "interrupted again: the rollout server gets 5 s. Ctrl-C again to leave at once",
        "interrupted a third time: leaving at once; every result that was counted is safe",
    ]


def test_the_long_stop_of_the_server_is_told() -> None:
    """When the rollouts are gone and the server may take minutes, that is said, with the way to shorten it."""
    state, (name,) = fresh(1)
    state, _, text = tell(state, Interrupted(AT))
    assert text is not None
    assert "cancelling 1 rollout;" in text
    state, _, text = tell(state, Returned(AT, name, None, 1.0))
    assert text == "stopping the rollout server; up to 330 s for its clean-up. Ctrl-C again to wait 5 s only"


def test_a_fault_is_told_with_its_reason() -> None:
    """The reason comes first, then what is done about what is in flight."""
    state, _ = fresh()
    _, _, text = tell(state, Fault(AT, "the key was rejected"))
    assert text == "stopping: the key was rejected; cancelling 2 rollouts; up to 120 s for clean-up"


def test_an_interrupt_after_a_fault_says_that_the_run_is_stopping() -> None:
    """The first Ctrl-C after a fault shortens nothing, and says what would."""
    state, _ = fresh()
    state, _, _ = tell(state, Fault(AT, "the key was rejected"))
    _, effects, text = tell(state, Interrupted(AT))
    assert (effects, text) == ([], "interrupted: the run is already stopping. Ctrl-C again to wait 5 s only")


def test_a_finished_run_has_nothing_to_say() -> None:
    """The end of a finished run brings no notice."""
    state, (name,) = fresh(1)
    state, _, text = tell(state, Returned(AT, name, SUCCESS, 1.0))
    assert text is None
    state, effects, text = tell(state, Committed(AT, (name,)))
    assert (state.phase, text) == (Phase.STOPPING, None)
    assert any(isinstance(effect, StopServer) for effect in effects)


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    """What is in flight is dropped at once, the server gets the short grace; a result that the journal has is waited for."""
    state, (first, second) = fresh()
    state, effects, _ = tell(state, Returned(AT, first, SUCCESS, 1.0))
    assert any(isinstance(effect, Commit) for effect in effects)
    state, effects, _ = tell(state, ContactLost(AT, second, "no answer"))
    assert (list(state.in_flight), effects, state.phase) == ([first], [], Phase.DRAINING)
    state, effects, _ = tell(state, Committed(AT, (first,)))
    assert [effect.grace for effect in effects if isinstance(effect, StopServer)] == [GRACE_AFTER_FINISH]
    assert state.tally.succeeded == 1


def test_a_server_that_goes_deaf_while_draining_ends_the_wait() -> None:
    """After an interrupt nobody can acknowledge the cancellation any more: the run does not wait for it."""
    state, (first, _) = fresh()
    state, _, _ = tell(state, Interrupted(AT))
    state, effects, _ = tell(state, ContactLost(AT, first, "no answer"))
    assert [effect.grace for effect in effects if isinstance(effect, StopServer)] == [GRACE_AFTER_FINISH]
    assert state.phase is Phase.STOPPING


def test_the_echo_of_a_known_exit_is_ignored() -> None:
    """A suspect that took the server with it is failed and the server started again; its own silence then means nothing."""
    items = list(work_items(2, 1))
    assignment = Assignment(InvocationStarted("i", AT, "0.3.10"), Workload((), tuple(items)), (0, 1), 2, {})
    state, effects = advance(begin(assignment, RunHistory(2), 1.0), Ready(AT, None))
    (name,) = (effect.rollout_id for effect in effects if isinstance(effect, Dispatch))
    state, _ = advance(state, ServerLost(AT, "killed by SIGKILL"))
    assert state.phase is Phase.STARTING
    assert advance(state, ContactLost(AT, name, "connection refused")) == (state, [])
    state, _ = advance(state, Committed(AT, (name,)))
    state, _ = advance(state, Ready(AT, None))
    assert advance(state, ContactLost(AT, name, "connection refused")) == (state, [])


EVENTS = st.sampled_from(
    [
        Interrupted(AT),
        Interrupted(AT),
        Fault(AT, "a fault"),
        ContactLost(AT, rollout_id("i", WorkItem(0, 0), 1), "no answer"),
        ServerLost(AT, "it exited"),
        JournalFailed(AT, "no space"),
        Stopped(AT),
    ]
)


@given(events=st.lists(EVENTS, max_size=8))
def test_every_interrupt_that_counts_is_answered_once(events: list[Event]) -> None:
    """Whatever else goes wrong around it: each of the first three interrupts gets one line, and so does the first fault."""
    state, _ = fresh()
    for event in events:
        after, _, text = tell(state, event)
        if text is not None:
            assert "\n" not in text
            assert not text.endswith(".")
        answered = isinstance(event, Interrupted) and after.interrupts > state.interrupts
        begins_to_end = state.phase is Phase.RUNNING and after.phase is not Phase.RUNNING
        if answered or begins_to_end:
            assert text is not None
        state = after


@given(outcomes=st.lists(st.sampled_from([SUCCESS, Outcome(Status.FAILED, error_type="e"), None]), min_size=1, max_size=5))
def test_what_is_still_to_run_is_what_has_no_new_result(outcomes: list[Outcome | None]) -> None:
    """Of a retry's items those count as pending that this invocation has no durable result of, whatever came before."""
    state, names = fresh(len(outcomes))
    history = RunHistory(len(outcomes))
    effects: list[Effect] = [Append(state.assignment.invocation)]
    for name, outcome in zip(names, outcomes, strict=True):
        state, more = advance(state, Returned(AT, name, outcome, 1.0))
        effects += more
    for effect in effects:
        if isinstance(effect, Append):
            history.add(effect.record)
        if isinstance(effect, Commit):
            history.add(effect.result)
    assert still_to_run(state.assignment.workload, history, "i") == outcomes.count(None)
    assert still_to_run(state.assignment.workload, history, "another") == len(outcomes)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3))
def test_last_words_are_left_to_the_report(last_words: list[str]) -> None:
    """The moment a server is lost, one line says so; what it said last is quoted once, at the end."""
    state, _ = fresh()
    reason = "\n".join(["the rollout server exited (killed by SIGKILL)", *last_words])
    after, _, text = tell(state, ServerLost(AT, reason))
    assert text == "stopping: the rollout server exited (killed by SIGKILL)"
    assert after.reason == reason

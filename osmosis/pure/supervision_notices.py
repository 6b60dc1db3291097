"""What a person is told the moment a run begins to end: what happens now, and how long it may take (E24; issue 3).

A notice follows from two states of the supervisor, before and after one event, so the words can never disagree with what is
really done. The times are the supervisor's own.
"""

from __future__ import annotations

from osmosis.pure.supervision_state import Phase, State
from osmosis.pure.supervisor import CANCEL_WAIT, GRACE_AFTER_FINISH, GRACE_AFTER_HALT, patient

_CLEAN_UP = f"up to {CANCEL_WAIT:.0f} s for clean-up"
_SERVER_STOP = f"stopping the rollout server; up to {GRACE_AFTER_HALT:.0f} s for its clean-up"
_SHORTER = f"Ctrl-C again to wait {GRACE_AFTER_FINISH:.0f} s only"

_REPEATED = {
    1: f"interrupted: the run is already stopping. {_SHORTER}",
    2: f"interrupted again: the rollout server gets {GRACE_AFTER_FINISH:.0f} s. Ctrl-C again to leave at once",
    3: "interrupted a third time: leaving at once; every result that was counted is safe",
}
"""By number of interrupts, when the run was already ending."""

_ENDING = (Phase.DRAINING, Phase.STOPPING)


def notice(before: State, after: State) -> str | None:
    """What to say about the step from `before` to `after`; None when there is nothing new. One line, no final full stop."""
    if before.phase in _ENDING:
        if after.interrupts > before.interrupts:
            return _REPEATED.get(after.interrupts)
        return _long_stop(after) if after.phase is not before.phase else None
    return _beginning(before, after) if after.phase in _ENDING else None


def _beginning(before: State, after: State) -> str | None:
    # The first line alone: the report at the end quotes what follows it.
    headline = (after.reason or "").partition("\n")[0]
    cause = "interrupted" if after.interrupts > before.interrupts else f"stopping: {headline}" if headline else None
    if cause is None:
        return None
    cancelled = sum(flight.result is None for flight in after.in_flight.values())
    work = f"cancelling {cancelled} rollout{'' if cancelled == 1 else 's'}; {_CLEAN_UP}" if cancelled else _long_stop(after)
    if work is None:
        return cause
    separator = ": " if after.interrupts else "; "
    return f"{cause}{separator}{work}" + (f". {_SHORTER}" if after.interrupts and cancelled else "")


def _long_stop(after: State) -> str | None:
    if after.phase is not Phase.STOPPING or not patient(after):
        return None
    return f"{_SERVER_STOP}. {_SHORTER if after.interrupts else 'Ctrl-C twice to wait 5 s only'}"

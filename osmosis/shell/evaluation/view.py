"""The runner's window to the person: what `run_evaluation` may say and ask, and to whom it leaves the wording.

The runner reports facts as records of `osmosis.pure.report`; the command line renders them as rich text, plain text or JSON.
The runner never prints, so one run reads the same in every output mode, and a test can watch a run without a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from osmosis.pure.report import ItemFinished, PlanSummary, Progress


class RunView(Protocol):
    """A listener of one run. Every method is called from the runner's own thread and returns soon; none of them may be slow
    enough to hold up a run, and none raises except where its docstring says so."""

    @property
    def interactive(self) -> bool:
        """Whether a question can be answered: rich output, and a terminal at both ends."""
        ...

    def protect(self, secrets: Iterable[str]) -> None:
        """Values that nothing may show from now on (E8, E9). Call it as soon as they are known; calls add up."""
        ...

    def warning(self, code: str, message: str) -> None:
        """Something that a person should know and that does not stop the run. `code` is upper snake case, for programs."""
        ...

    def milestone(self, text: str) -> None:
        """A step of the run began or ended: `checking model`, `rollout server healthy on port 41233`. No final full stop."""
        ...

    def plan(self, plan: PlanSummary) -> None:
        """What is about to run. Called once, before anything is dispatched and before `confirm`."""
        ...

    def confirm(self, question: str, *, default: bool) -> bool:
        """Ask yes or no. `--yes` answers True without asking; an empty answer is `default`.

        Raises OsmosisError (INTERACTIVE_REQUIRED) where nobody can be asked.
        """
        ...

    def propose(self, question: str) -> bool:
        """Offer something that nobody asked for; yes is the default. False, without asking, under `--yes` and where nobody
        can be asked: a script gets only what it asked for (E19)."""
        ...

    def prompt_secret(self, name: str) -> str | None:
        """Ask for the value of the secret `name` without echoing it. None where nobody can be asked or the answer is empty."""
        ...

    def progress(self, progress: Progress) -> None:
        """The counts changed. Called once with the counts at the start, then after each durable result, and now and
        then while calls wait for a rate limit."""
        ...

    def item(self, finished: ItemFinished) -> None:
        """An item just became durable. Called before the `progress` that counts it."""
        ...

    def log_line(self, line: str) -> None:
        """A line that also goes to `logs.txt`, already redacted there. Echoed under `--verbose` only."""
        ...

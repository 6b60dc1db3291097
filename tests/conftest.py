"""Settings that every test shares.

Hypothesis runs under one of four profiles, chosen by `HYPOTHESIS_PROFILE` or, without it, by `CI`:

- `dev` (the default): few examples, new ones each time, so that a run before a commit is quick.
- `steady`: as few, the same ones each time, so that a red build is red again on the next machine (`.ci/run` without `CI`).
- `ci`: more examples, the same ones each time.
- `thorough`: many examples, for a search by hand.

None has a deadline: a promise about time would make the tests depend on the machine.

While tests run, an audit hook refuses every effect of `osmosis.pure` (`tests/purity_hook.py`).

`--write-golden` makes the golden tests write their files instead of comparing them (`just golden`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests import purity_hook

NO_CONSTANTS = Constants()

settings.register_profile("dev", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", settings.get_profile("dev"), derandomize=True, database=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("steady"), max_examples=200)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

if settings.default is not None and settings.default.derandomize:
    # Hypothesis mixes in constants of our modules, of all that happen to be imported by then: which test ran before, and in
    # which process, would decide about the examples.
    providers._get_local_constants = lambda: NO_CONSTANTS

purity_hook.install()

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def pytest_configure() -> None:
    """A shell that runs the suite in the background, or `nohup`, has it ignore signals, and what it starts would ignore them
    too, while tests wait for what those signals do."""
    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test during which the functional core had an effect, even if somebody swallowed the exception."""
    purity_hook.take_violations()
    yield
    if effects := purity_hook.take_violations():
        raise purity_hook.ImpureError("the functional core had effects:\n" + "\n".join(effects))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--write-golden`."""
    parser.addoption("--write-golden", action="store_true", help="write golden files instead of comparing them")

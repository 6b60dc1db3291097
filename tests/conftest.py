"""Settings that every test shares.

Hypothesis runs under one of three profiles, chosen by `HYPOTHESIS_PROFILE` or, without it, by `CI`:

- `dev` (the default): few examples, new ones each time, so that a run before a commit is quick.
- `ci`: more examples, the same ones each time, so that a red build is red again on the next machine.
- `thorough`: many examples, for a search by hand.

None has a deadline: a promise about time would make the tests depend on the machine.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("dev", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), max_examples=200, derandomize=True, database=None, print_blob=True)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

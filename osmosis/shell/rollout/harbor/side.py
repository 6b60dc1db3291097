"""What a trial's agent and verifier need and Harbor must not write down: keys, and paths of this process.

Harbor makes agents and verifiers from a configuration that it also saves. They run in this process, so what is not for files
is left here under the trial's name, which is all that the configuration holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from osmosis.pure.bundle import BundleInfo
from osmosis.pure.container_files import ContainerInput
from osmosis.pure.sandbox_python import SandboxPython


@dataclass
class TrialSide:
    """One trial's. `python` is filled in once the sandbox has told what it has."""

    given: ContainerInput
    api_key: str | None = None
    bundle: BundleInfo | None = None
    site_key: str = ""
    sites_dir: Path | None = None
    python: SandboxPython | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables for what runs in the sandbox; a process there sees them, no file does."""
        values = {"OSMOSIS_CHAT_COMPLETIONS_URL": self.given.chat_completions_url, "OSMOSIS_ROLLOUT_ID": self.given.rollout_id}
        return {**values, "OSMOSIS_API_KEY": self.api_key} if self.api_key else values


_sides: dict[str, TrialSide] = {}


@contextmanager
def on_the_side(name: str, side: TrialSide) -> Iterator[None]:
    """Keep `side` under a trial's name while it runs. Raises ValueError if there is one already."""
    if name in _sides:
        raise ValueError(f"there is already a trial {name!r}")
    _sides[name] = side
    try:
        yield
    finally:
        del _sides[name]


def side_of(name: str) -> TrialSide:
    """What was left for a trial. Raises LookupError for one that this process does not run."""
    try:
        return _sides[name]
    except KeyError:
        raise LookupError(f"no trial {name!r} runs in this process; it can only be run by a HarborBackend") from None

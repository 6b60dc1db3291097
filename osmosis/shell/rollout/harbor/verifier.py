"""Harbor's verifier with two additions: a bundled grader finds its packages, and what comes back is read without trust.

Harbor reads the reward from a directory that the sandbox may share with this machine. A giant, a link or a pipe in the reward's
place must not cost more than this one reward (issue 5, hostile artifacts).
"""

from __future__ import annotations

import math
from typing import Any

from harbor.verifier.verifier import (
    RewardFileEmptyError,
    RewardFileNotFoundError,
    Verifier,
    VerifierOutputParseError,
)

from osmosis.pure.canonical import decode_json
from osmosis.shell.rollout.harbor.installation import install
from osmosis.shell.rollout.harbor.side import TrialSide, side_of
from osmosis.shell.rollout.tree_copy import read_regular

MAX_REWARD_BYTES = 1 << 20


class OsmosisVerifier(Verifier):
    """`trial` names what is left on the side; `grader` says that the task's test script runs the bundle's grader."""

    def __init__(self, *args: Any, trial: str, grader: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._side: TrialSide = side_of(trial)
        self._grader = grader

    async def verify(self) -> Any:
        """Verify as Harbor does."""
        if self._grader:
            installed = await install(self.environment, self._side)
            self.override_env.update(installed.environment | self._side.environment)
        return await super().verify()

    def _parse_reward_json(self) -> dict[str, float | int]:
        text = self._reward(self.trial_paths.reward_json_path)
        try:
            rewards = decode_json(text)
        except ValueError as error:
            raise VerifierOutputParseError(f"The reward file is not JSON: {error}") from None
        if not isinstance(rewards, dict) or not all(_is_number(value) for value in rewards.values()):
            raise VerifierOutputParseError("The reward file must hold an object of finite numbers")
        return rewards

    def _parse_reward_text(self) -> dict[str, float | int]:
        text = self._reward(self.trial_paths.reward_text_path).decode(errors="replace").strip()
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise VerifierOutputParseError(f"The reward file must hold a finite number, not {text[:80]!r}")
        return {"reward": value}

    def _reward(self, path: Any) -> bytes:
        data = read_regular(path, MAX_REWARD_BYTES)
        if data is None:
            raise RewardFileNotFoundError(f"{path.name} is not a regular file of at most {MAX_REWARD_BYTES} bytes")
        if not data.strip():
            raise RewardFileEmptyError(f"The reward file {path.name} is empty")
        return data


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

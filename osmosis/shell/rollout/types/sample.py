"""The sample: what a rollout returns and a grader scores (contract: rollout_protocol section 2.4)."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from osmosis.pure.json_safe import is_plain_json, json_safe

logger = logging.getLogger(__name__)

MessageDict = dict[str, Any]
Messages = list[MessageDict]


class RolloutSample(BaseModel):
    """A conversation and its score. NaN and infinity are no rewards; assignments are validated.

    `trajectory_messages` is what the trajectory tells: a copy of `messages` unless given; None keeps the rollout out of the
    trajectory store.
    """

    model_config = ConfigDict(validate_assignment=True, allow_inf_nan=False)

    messages: Sequence[Mapping[str, Any]] = Field(default_factory=list)
    trajectory_messages: Sequence[Mapping[str, Any]] | None = None
    label: str | None = None
    reward: float | None = None
    remove_sample: bool = False
    metrics: dict[str, Any] = Field(default_factory=dict)
    extra_fields: dict[str, Any] = Field(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        """Keep the conversation as it is now, whatever a grader does to `messages` later."""
        if "trajectory_messages" in self.model_fields_set:
            return
        try:
            snapshot = _snapshot(self.messages)
        except Exception as error:  # noqa: BLE001 - the copy runs code of the messages' own types
            logger.warning("The messages cannot be copied, so no trajectory will be kept: %s", error)
            return
        self.__dict__["trajectory_messages"] = snapshot

    def json_safe_copy(self) -> RolloutSample:
        """This sample if `metrics` and `extra_fields` are plain JSON, else a copy in which they are."""
        if is_plain_json(self.metrics) and is_plain_json(self.extra_fields):
            return self
        metrics, dropped_metrics = json_safe(self.metrics)
        extra_fields, dropped_fields = json_safe(self.extra_fields)
        dropped = sorted(dropped_metrics | dropped_fields)
        if dropped:
            logger.warning("Values that JSON cannot hold were left out of the sample: %s", ", ".join(dropped))
        return self.model_copy(update={"metrics": metrics, "extra_fields": extra_fields})


def _snapshot(value: Any) -> Any:
    """A deep copy; plain JSON values, which most conversations are made of, take a tenth of the usual time."""
    kind = type(value)
    if kind is str or kind is int or kind is float or kind is bool or value is None:
        return value
    if kind is list:
        return [_snapshot(item) for item in value]
    if kind is dict:
        return {key: _snapshot(item) for key, item in value.items()}
    return copy.deepcopy(value)

"""`metrics.json`: its records, and the one pair of functions that writes and reads it (E16, E29; `eval_local.md` 1.2 and 5).

No polars here, so that whoever only shows a finished run's numbers starts at once. `osmosis.pure.metrics` computes them.
Fields stand in the order of the file's keys; a field that is None is left out of the file.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from osmosis.pure.canonical import decode_json, pretty_json, strip_byte_order_mark
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.estimate import Counts, ErrorSummary, Uncertainty


class EvalRunStatus(StrEnum):
    """How far a run is: `finished` when every planned item has a terminal result, `incomplete` when it stopped before that."""

    RUNNING = "running"
    FINISHED = "finished"
    INCOMPLETE = "incomplete"


class EvalRunInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `eval_run` object. Times are ISO 8601 UTC and describe the whole run, not its last invocation."""

    id: str
    status: EvalRunStatus
    name: str
    dataset_name: str
    model_name: str
    rollout_name: str
    duration_ms: float
    started_at: str
    completed_at: str | None = None


class RewardStatistics(msgspec.Struct, frozen=True):
    """Over the rewards of graded attempts. `std` is the population's (0 degrees of freedom): 0.0 for a single reward."""

    mean: float
    median: float
    std: float
    min: float
    max: float


class ContextStatistics(msgspec.Struct, frozen=True):
    """Tokens of the largest model call of a rollout, over the rollouts that report it (ruling 6).

    Percentiles interpolate linearly between the two nearest ranks, so `p50` is the median.
    """

    max: int
    mean: float
    p50: float
    p95: float


class PassPoint(msgspec.Struct, frozen=True):
    """One point of a pass@k or pass^k curve."""

    k: int
    value: float


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `summary` object.

    `completed_samples` are the scored ones, all but skipped; `pass_rate` is passed / completed_samples, the integer 0 when
    nothing is scored; `n_runs` is there from 2 runs a row on; the two curves from two points on; `context_stats` when any
    rollout reports its context. Behind the contract's keys stand our own, in the metrics of a run that is not running any more:
    `counts`, `errors` and `uncertainty`, where what is undefined is null with a reason.
    """

    total_samples: int
    completed_samples: int
    graded: int
    passed: int
    failed: int
    skipped: int
    pass_rate: int | float
    pass_threshold: float
    tokens_used: int
    reward_stats: RewardStatistics | None = None
    n_runs: int | None = None
    pass_at_k: tuple[PassPoint, ...] | None = None
    pass_hat_k: tuple[PassPoint, ...] | None = None
    context_stats: ContextStatistics | None = None
    cost_usd: float | None = None
    counts: Counts | None = None
    errors: ErrorSummary | None = None
    uncertainty: Uncertainty | None = None


class Metrics(msgspec.Struct, frozen=True):
    """All of `metrics.json`."""

    eval_run: EvalRunInfo
    summary: Summary


def summary_object(summary: Summary) -> dict[str, Any]:
    """The `summary` as plain JSON values in key order, absent keys left out; for reports and JSON output."""
    value: dict[str, Any] = msgspec.to_builtins(summary)
    return value


def encode_metrics(run: EvalRunInfo, summary: Summary) -> bytes:
    """The bytes of `metrics.json`: two spaces of indentation, one final newline. No float is rounded."""
    return pretty_json({"eval_run": msgspec.to_builtins(run), "summary": summary_object(summary)})


def decode_metrics(data: bytes, label: str) -> Metrics:
    """Read `metrics.json`. Unknown keys are ignored; raises OsmosisError naming `label` when it is not what it should be."""
    try:
        return msgspec.convert(decode_json(strip_byte_order_mark(data)), Metrics)
    except (ValueError, msgspec.ValidationError) as error:
        raise OsmosisError(
            f"{label} is not a metrics file.",
            problems=[Problem(label, str(error))],
            hint="`osmosis eval verify RUN --repair` rebuilds it from the journal.",
        ) from None

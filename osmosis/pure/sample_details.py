"""What a sample carries beside its reward: the metrics of its workflow and grader, and the metadata of its row.

Both lie in the sample's own trajectory file, under `extra.osmosis` (contract rollout_protocol section 9); the journal and the
index have neither. A mean is taken over the samples that have the number, and says how many have none: what is missing never
counts as zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import fsum, isfinite
from typing import Any

import msgspec

from osmosis.pure.canonical import decode_json
from osmosis.pure.json_safe import is_plain_json, json_safe
from osmosis.pure.presentation import counted, decimal, thousands

Details = dict[str, Any]
_SMALL = 0.001


class SampleDetails(msgspec.Struct, frozen=True):
    """JSON objects as they were stored; None where nothing was."""

    metrics: Details | None = None
    metadata: Details | None = None


NO_DETAILS = SampleDetails()


class MetricMean(msgspec.Struct, frozen=True):
    """A metric over the samples of a run.

    `samples`, of which there is at least one, have it as a number and make the `mean`. `missing` have it not at all, or null;
    `not_numbers` have something else in its place.
    """

    name: str
    mean: float
    samples: int
    missing: int
    not_numbers: int


class _Provenance(msgspec.Struct):
    rollout_id: Any = None
    sample_metrics: Any = None
    request_metadata: Any = None


class _Extra(msgspec.Struct):
    osmosis: _Provenance | None = None


class _Document(msgspec.Struct):
    """The part of a trajectory that is read here: the steps are skipped, which is most of the work."""

    extra: _Extra | None = None


_decoder = msgspec.json.Decoder(_Document)


def sample_details(trajectory: bytes | None, rollout_id: str) -> SampleDetails:
    """The details in a trajectory document of the rollout `rollout_id`. Nothing for None, for a document that cannot be read,
    and for another rollout's."""
    document = _document(trajectory) if trajectory else None
    provenance = document.extra.osmosis if document and document.extra else None
    if provenance is None or provenance.rollout_id != rollout_id:
        return NO_DETAILS
    return SampleDetails(_object(provenance.sample_metrics), _object(provenance.request_metadata))


def _document(trajectory: bytes) -> _Document | None:
    try:
        return _decoder.decode(trajectory)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        pass
    try:
        # What the strict decoder refuses may still be JSON: lone surrogates, spelled as escapes.
        return msgspec.convert(decode_json(trajectory), _Document)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return None


def _object(value: Any) -> Details | None:
    if not isinstance(value, dict) or not value:
        return None
    return value if is_plain_json(value) else json_safe(value)[0]


def json_text(value: Any) -> str:
    """`value` as JSON on one line, its keys in the stored order, other scripts as they are."""
    return json.dumps(value, ensure_ascii=False)


def as_number(value: Any) -> float | None:
    """`value` as a finite number. None for anything else; true and false are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def metric_means(details: Sequence[SampleDetails]) -> tuple[MetricMean, ...]:
    """Each metric that is a number in some of the samples, by name."""
    numbers: dict[str, list[float]] = {}
    others: dict[str, int] = {}
    for one in details:
        for name, value in (one.metrics or {}).items():
            if (number := as_number(value)) is not None:
                numbers.setdefault(name, []).append(number)
            elif value is not None:
                others[name] = others.get(name, 0) + 1
    return tuple(
        MetricMean(name, _mean(values), len(values), len(details) - len(values) - others.get(name, 0), others.get(name, 0))
        for name, values in sorted(numbers.items())
    )


def _mean(values: Sequence[float]) -> float:
    """The mean, in any order of the values the same."""
    try:
        return fsum(values) / len(values)
    except OverflowError:  # the sum is no double; the mean always is one
        return fsum(value / len(values) for value in values)


def mean_value(mean: MetricMean) -> str:
    """The mean as people see it everywhere: three decimals, and of what would be nothing in these its first digits."""
    small = 0 < abs(mean.mean) < _SMALL
    return f"{mean.mean:.2e}" if small else decimal(mean.mean)


def mean_samples(mean: MetricMean) -> str:
    """`18 of 20 samples, 1 missing, 1 no number`: over what the mean was taken, and what it says nothing of."""
    whole = mean.samples + mean.missing + mean.not_numbers
    parts = [f"{thousands(mean.samples)} of {counted(whole, 'sample')}"]
    parts += [f"{thousands(mean.missing)} missing"] if mean.missing else []
    parts += [f"{thousands(mean.not_numbers)} no number"] if mean.not_numbers else []
    return ", ".join(parts)


def most_common(means: Iterable[MetricMean], most: int) -> tuple[MetricMean, ...]:
    """The `most` metrics that most samples have, by name."""
    return tuple(sorted(sorted(means, key=lambda mean: (-mean.samples, mean.name))[:most], key=lambda mean: mean.name))


def flat(details: Details | None, prefix: str) -> Mapping[str, str]:
    """The entries of an object as `prefix.key` and text: text as it is, anything else as JSON."""
    return {f"{prefix}.{key}": value if isinstance(value, str) else json_text(value) for key, value in (details or {}).items()}

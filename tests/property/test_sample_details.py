"""What a sample carries beside its reward: what is read, what is a number, and that nothing missing is one."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.sample_details import (
    NO_DETAILS,
    MetricMean,
    SampleDetails,
    as_number,
    flat,
    mean_samples,
    mean_value,
    metric_means,
    most_common,
    sample_details,
)
from tests.strategies.comparisons import trajectory_file

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(names, values, max_size=4)
metrics = st.none() | st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@given(objects, st.none() | objects)
def test_what_the_sdk_stores_is_read_back(metrics: dict[str, object], metadata: dict[str, object] | None) -> None:
    """Metrics and metadata come back as they were; an empty object says nothing, and so is none."""
    found = sample_details(trajectory_file("r-1", metrics, metadata), "r-1")
    assert found == SampleDetails(metrics or None, metadata or None)


@given(objects)
def test_another_rollouts_file_says_nothing(metrics: dict[str, object]) -> None:
    """A trajectory that names another rollout is not this sample's."""
    assert sample_details(trajectory_file("r-2", metrics, metrics), "r-1") == NO_DETAILS


def test_a_file_cut_anywhere_says_nothing() -> None:
    """Every beginning of a file but the whole of it, and whatever else may lie in its place."""
    whole = trajectory_file("r-1", {"a": 1}, {"b": 2})
    assert sample_details(whole, "r-1") == SampleDetails({"a": 1}, {"b": 2})
    assert all(sample_details(whole[:length], "r-1") == NO_DETAILS for length in range(len(whole.rstrip())))
    deep = b'{"extra": {"osmosis": {"rollout_id": "r-1", "sample_metrics": ' + b"[" * 100_000
    others = [None, b"", b"null", b"[]", b'{"extra": 1}', b'{"extra": {"osmosis": []}}', b"\xff", deep]
    assert [sample_details(other, "r-1") for other in others] == [NO_DETAILS] * len(others)


@pytest.mark.parametrize("value", ["NaN", "1" * 5000, "1e999", "-Infinity"])
def test_numbers_that_no_reader_agrees_on_say_nothing(value: str) -> None:
    """Neither an error nor a number comes of them."""
    document = '{"extra": {"osmosis": {"rollout_id": "r-1", "sample_metrics": {"a": %s, "b": 1}}}}' % value
    found = sample_details(document.encode(), "r-1")
    assert as_number((found.metrics or {}).get("a")) is None
    assert all(mean.name == "b" for mean in metric_means([found]))


def test_lone_surrogates_are_mended() -> None:
    """JSON may spell what UTF-8 cannot hold; the rest of the object is not lost to it."""
    document = rb'{"extra": {"osmosis": {"rollout_id": "r-1", "sample_metrics": {"a\ud800": 1, "b": "\udfff"}}}}'
    assert sample_details(document, "r-1").metrics == {"a\ufffd": 1, "b": "\ufffd"}


@given(st.lists(metrics, max_size=12))
def test_a_mean_is_over_the_samples_that_have_the_number(given: list[dict[str, object] | None]) -> None:
    """Exact, in any order; who has it, who lacks it and who has something else make all samples together."""
    details = [SampleDetails(one) for one in given]
    means = metric_means(details)
    assert means == metric_means(details[::-1])
    assert [mean.name for mean in means] == sorted(
        {n for one in given for n, v in (one or {}).items() if as_number(v) is not None}
    )
    for mean in means:
        held: list[float] = [number for one in given if (number := as_number((one or {}).get(mean.name))) is not None]
        assert mean.samples == len(held) > 0
        assert mean.samples + mean.missing + mean.not_numbers == len(given)
        assert mean.missing == sum((one or {}).get(mean.name) is None for one in given)
        exact = sum(map(Fraction, held), Fraction()) / len(held)
        greatest = max(abs(Fraction(value)) for value in held)
        assert abs(Fraction(mean.mean) - exact) <= greatest * Fraction(1, 2**50) + Fraction(5e-324)


def test_what_is_missing_is_named_and_never_zero() -> None:
    """Spelled out; true and false are no numbers; a mean may be a double where the sum is none."""
    huge = SampleDetails({"huge": 1.7e308})
    details = [
        SampleDetails({"a": 1, "b": True}),
        SampleDetails({"a": 0.5, "b": 2}),
        SampleDetails({"a": None}),
        NO_DETAILS,
        huge,
        huge,
    ]
    a, b, big = metric_means(details)
    assert (a, b) == (MetricMean("a", 0.75, 2, 4, 0), MetricMean("b", 2.0, 1, 4, 1))
    assert [mean_value(mean) for mean in (a, b, big)] == ["0.750", "2.000", "1.700e+308"]
    assert mean_value(MetricMean("tiny", -1.25e-9, 1, 0, 0)) == "-1.25e-09"
    assert mean_value(MetricMean("none", -0.0, 1, 0, 0)) == "0.000"
    assert mean_samples(a) == "2 of 6 samples, 4 missing"
    assert mean_samples(b) == "1 of 6 samples, 4 missing, 1 no number"
    assert mean_samples(MetricMean("c", 1.0, 1, 0, 0)) == "1 of 1 sample"


def test_the_most_common_are_kept_by_name() -> None:
    """Of too many metrics those stay that most samples have."""
    means = [MetricMean(name, 1.0, samples, 0, 0) for name, samples in (("a", 1), ("b", 3), ("c", 2), ("d", 3))]
    assert [mean.name for mean in most_common(means, 3)] == ["b", "c", "d"]


def test_flat_entries() -> None:
    """Text as it is, anything else as JSON."""
    assert flat({"a": "x", "b": 1.5, "c": {"d": None}, "e": "ü"}, "metric") == {
        "metric.a": "x",
        "metric.b": "1.5",
        "metric.c": json.dumps({"d": None}),
        "metric.e": "ü",
    }
    assert flat(None, "metric") == {}

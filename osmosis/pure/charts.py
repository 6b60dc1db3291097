"""Charts of a run as Vega-Lite documents: one description each for the HTML report and for notebooks (issues 8 and 9).

A `Chart` holds the document, and the same numbers as a table for whoever does not see the picture. No text of a model is in
any of them. Colours are the few of `COLOURS`, so that a style sheet can exchange them for a dark background.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import polars as pl

from osmosis.pure.canonical import canonical_json
from osmosis.pure.comparison import Comparison
from osmosis.pure.estimate import CurvePoint
from osmosis.pure.histogram import Bin, histogram
from osmosis.pure.presentation import UNDEFINED, decimal, duration, thousands

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_MARK, _SECOND, _INK, _GRID = "#2f6fb0", "#b0632f", "#52606d", "#e1e6eb"
COLOURS = (_MARK, _SECOND, _INK, _GRID)
"""Marks, marks of a second series, text and axes, grid lines."""
_WIDTH, _HEIGHT = 340, 190
_ABBREVIATED_FROM = 10_000
"""From which number on an axis says `20k`."""


class Chart(msgspec.Struct, frozen=True):
    """`specification` is a Vega-Lite document with its data inside. `header` and `rows` say the same in words."""

    key: str
    title: str
    note: str
    specification: bytes
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def reward_chart(samples: pl.DataFrame) -> Chart:
    """How many graded samples have which reward. `samples` has the columns `graded` and `reward`."""
    rewards = samples.filter("graded")["reward"].to_list()
    return _distribution("reward", "Rewards", "graded samples by reward", "reward", rewards, _number)


def context_chart(samples: pl.DataFrame) -> Chart:
    """The largest model call of each sample, in tokens."""
    title = "Context lengths"
    note = "samples by the tokens of their largest model call"
    return _distribution("context", title, note, "tokens", _values(samples, "max_context_tokens"), _count)


def token_chart(samples: pl.DataFrame) -> Chart:
    """The tokens of each sample."""
    return _distribution("tokens", "Tokens", "samples by all their tokens", "tokens", _values(samples, "tokens"), _count)


def time_chart(samples: pl.DataFrame) -> Chart:
    """How long each sample took, in seconds."""
    seconds = [value / 1000 for value in _values(samples, "duration_ms")]
    return _distribution(
        "time", "Time", "samples by how long they took", "seconds", seconds, lambda value: duration(value * 1000)
    )


def pass_curve_chart(pass_at_k: Sequence[CurvePoint], pass_hat_k: Sequence[CurvePoint], confidence: float = 0.95) -> Chart:
    """pass@k and pass^k with their intervals."""
    curves = (("pass@k", pass_at_k), ("pass^k", pass_hat_k))
    values = [
        {"k": point.k, "curve": name, "value": point.value, "low": point.low, "high": point.high}
        for name, points in curves
        for point in points
    ]
    series = {"field": "curve", "type": "nominal", "title": None, "scale": {"range": [_MARK, _SECOND]}}
    x = {"field": "k", "type": "ordinal", "title": "k", "axis": {"labelAngle": 0}}
    share = {"type": "quantitative", "title": "share of rows", "axis": {"format": "%"}, "scale": {"domain": [0, 1]}}
    interval = {"x": x, "color": series, "y": {"field": "low", **share}, "y2": {"field": "high"}}
    # Dashed above solid: where the curves coincide, both are seen; and neither is told by its colour alone.
    dashes = {"field": "curve", "type": "nominal", "legend": None, "scale": {"range": [[1, 0], [5, 4]]}}
    value = {"x": x, "color": series, "strokeDash": dashes, "y": {"field": "value", **share}}
    layers = [
        {"mark": {"type": "rule"}, "encoding": interval},
        {"mark": {"type": "line", "point": {"size": 55}}, "encoding": value},
    ]
    percent = f"{confidence * 100:g}%"
    return Chart(
        key="pass_curve",
        title="pass@k and pass^k",
        note=f"any of k runs of a row passes, and all of them do, with {percent} intervals",
        specification=_document(values, {"layer": layers}),
        header=("", "k", "Value", f"{percent} interval"),
        rows=tuple((name, str(point.k), _share(point.value), _interval(point)) for name, points in curves for point in points),
    )


def comparison_chart(comparisons: Sequence[Comparison]) -> Chart:
    """The differences of the pass rate with their intervals, a line a candidate (a forest plot)."""
    estimates = [(comparison.candidate, comparison.pass_rate.difference) for comparison in comparisons]
    values = [
        {"candidate": name, "value": estimate.value, "low": estimate.low, "high": estimate.high} for name, estimate in estimates
    ]
    y = {"field": "candidate", "type": "nominal", "title": None, "sort": None}
    x = {"type": "quantitative", "title": "difference of the pass rate", "axis": {"format": "+.1%"}}
    interval = {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}}
    layers = [
        {"mark": {"type": "rule", "color": _INK, "strokeDash": [3, 3]}, "encoding": {"x": {"datum": 0}}},
        {"mark": {"type": "rule", "color": _MARK, "size": 3}, "encoding": interval},
        {
            "mark": {"type": "point", "filled": True, "color": _MARK, "size": 80},
            "encoding": {"y": y, "x": {"field": "value", **x}},
        },
    ]
    height = 40 * len(comparisons) + 20
    return Chart(
        key="comparison",
        title=f"Compared with {comparisons[0].baseline}",
        note="differences of the pass rate, candidate minus baseline",
        specification=_document(values, {"layer": layers, "height": height}),
        header=("Candidate", "Difference", "Low", "High"),
        rows=tuple(
            (name, *(UNDEFINED if end is None else _share(end) for end in (estimate.value, estimate.low, estimate.high)))
            for name, estimate in estimates
        ),
    )


def _values(samples: pl.DataFrame, column: str) -> list[float]:
    return samples[column].drop_nulls().cast(pl.Float64).to_list()


def _distribution(key: str, title: str, note: str, unit: str, values: Sequence[float], spell: Callable[[float], str]) -> Chart:
    bins = histogram(values)
    single = all(part.start == part.end for part in bins)
    y = {"field": "count", "type": "quantitative", "title": "samples", "axis": {"tickMinStep": 1, "format": ",d"}}
    if single:
        x: dict[str, Any] = {"field": "label", "type": "ordinal", "title": unit, "sort": None, "axis": {"labelAngle": 0}}
        encoding = {"x": x, "y": y}
    else:
        axis = {"format": "~s" if max(-bins[0].start, bins[-1].end) >= _ABBREVIATED_FROM else ",f", "tickCount": 6}
        x = {"field": "start", "type": "quantitative", "bin": "binned", "title": unit, "axis": axis}
        encoding = {"x": x, "x2": {"field": "end"}, "y": y}
    bar = {"type": "bar", "color": _MARK, **({"width": {"band": 0.7}} if single else {})}
    rows = [{"start": part.start, "end": part.end, "label": spell(part.start), "count": part.count} for part in bins]
    return Chart(
        key=key,
        title=title,
        note=f"{thousands(len(values))} {note}",
        specification=_document(rows, {"mark": bar, "encoding": encoding}),
        header=(unit.capitalize(), "Samples"),
        rows=tuple((_range(part, spell), thousands(part.count)) for part in bins),
    )


def _range(part: Bin, spell: Callable[[float], str]) -> str:
    return spell(part.start) if part.start == part.end else f"{spell(part.start)} to {spell(part.end)}"


def _number(value: float) -> str:
    return decimal(value, 3) if abs(value) < 1e9 else f"{value:.3g}"


def _count(value: float) -> str:
    return thousands(round(value))


def _seconds(value: float) -> str:
    return duration(value * 1000)


def _share(value: float) -> str:
    return f"{decimal(value * 100, 1)}%"


def _interval(point: CurvePoint) -> str:
    if point.low is None or point.high is None:
        return point.reason or UNDEFINED
    return f"{_share(point.low)} to {_share(point.high)}"


_CONFIG = {
    "background": "transparent",
    "view": {"stroke": None},
    "font": "sans-serif",
    "axis": {
        "labelColor": _INK,
        "titleColor": _INK,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 12,
        "domainColor": _INK,
        "tickColor": _INK,
        "gridColor": _GRID,
    },
    "axisX": {"grid": False},
    "legend": {"labelColor": _INK, "labelFontSize": 12, "orient": "top"},
}


def _document(values: Sequence[dict[str, Any]], body: dict[str, Any]) -> bytes:
    data = {"values": list(values)}
    return canonical_json({"$schema": SCHEMA, "config": _CONFIG, "data": data, "width": _WIDTH, "height": _HEIGHT, **body})

"""Comparisons as rows of words, once for the terminal and once for HTML, so that the two never disagree (issue 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from osmosis.pure.comparison import Comparison, Difference, Flip
from osmosis.pure.presentation import UNDEFINED, decimal, duration, thousands

DELTA_HEADER = ("", "Baseline", "Candidate", "Difference", "95% interval", "p")
SLICE_HEADER = ("Slice", "Rows", "Baseline", "Candidate", "Difference", "95% interval", "Up/Down", "Adjusted p")
FLIP_HEADER = ("Row", "Baseline", "Candidate", "", "Prompt")


def with_confidence(header: Sequence[str], confidence: float) -> tuple[str, ...]:
    """`header` with the confidence of its intervals."""
    return tuple(name.replace("95%", f"{confidence * 100:g}%") for name in header)


def _points(value: float) -> str:
    """A share, in percent."""
    return f"{decimal(value * 100, 1)}%"


def _signed(spell: Callable[[float], str]) -> Callable[[float], str]:
    def spelled(value: float) -> str:
        text = spell(abs(value))
        # What is rounded to nothing has no sign.
        if not any(digit in text for digit in "123456789"):
            return text
        return f"+{text}" if value > 0 else f"\N{MINUS SIGN}{text}"

    return spelled


def _dollars(value: float) -> str:
    return f"${decimal(value, 6)}"


def _latency(milliseconds: float) -> str:
    return f"{decimal(milliseconds, 0)} ms" if abs(milliseconds) < 1000 else duration(milliseconds)


def _count(value: float) -> str:
    return thousands(round(value)) if abs(value) >= 100 else decimal(value, 1)


_QUANTITIES: tuple[tuple[str, Callable[[Comparison], Difference], Callable[[float], str]], ...] = (
    ("Pass rate", lambda comparison: comparison.pass_rate, _points),
    ("Reward", lambda comparison: comparison.reward, decimal),
    ("Tokens", lambda comparison: comparison.tokens, _count),
    ("Latency", lambda comparison: comparison.duration_ms, _latency),
    ("Cost", lambda comparison: comparison.cost, _dollars),
)


def delta_rows(comparison: Comparison) -> tuple[tuple[str, ...], ...]:
    """Cells under `DELTA_HEADER`, a row for each quantity that both runs report."""
    return tuple(
        (name, *_delta(difference, spell), p_value(difference.p_value))
        for name, read, spell in _QUANTITIES
        if (difference := read(comparison)).baseline is not None
    )


def _delta(difference: Difference, spell: Callable[[float], str]) -> tuple[str, str, str, str]:
    estimate, signed = difference.difference, _signed(spell)
    interval = UNDEFINED
    if estimate.low is not None and estimate.high is not None:
        interval = f"{signed(estimate.low)} to {signed(estimate.high)}"
    return (
        UNDEFINED if difference.baseline is None else spell(difference.baseline),
        UNDEFINED if difference.candidate is None else spell(difference.candidate),
        UNDEFINED if estimate.value is None else signed(estimate.value),
        interval,
    )


def slice_rows(comparison: Comparison) -> tuple[tuple[str, ...], ...]:
    """Cells under `SLICE_HEADER`."""
    return tuple(
        (
            part.value[:60],
            thousands(part.rows),
            *_delta(part.pass_rate, _points),
            f"{part.exact.better}/{part.exact.worse}",
            p_value(part.adjusted_p_value),
        )
        for part in comparison.slices
    )


def flip_rows(comparison: Comparison) -> tuple[tuple[str, ...], ...]:
    """Cells under `FLIP_HEADER`, the rows that got worse first."""
    return tuple(_flip(flip) for flip in comparison.flips)


def _flip(flip: Flip) -> tuple[str, ...]:
    shares = (decimal(flip.baseline_share, 2), decimal(flip.candidate_share, 2))
    return (str(flip.source_row_index), *shares, flip.direction.value, flip.prompt or "")


def p_value(value: float | None) -> str:
    """A P value for people."""
    if value is None:
        return UNDEFINED
    return "<0.001" if value < 0.001 else f"{value:.3f}"

"""Comparisons as HTML: a section that any report can include, and a page of its own that needs nothing else (issue 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from osmosis.pure.comparison import Comparison, Difference
from osmosis.pure.comparison_text import (
    DELTA_HEADER,
    FLIP_HEADER,
    SLICE_HEADER,
    delta_rows,
    flip_rows,
    slice_rows,
    with_confidence,
)
from osmosis.pure.html_page import document, table
from osmosis.pure.html_page import text as _text
from osmosis.pure.presentation import counted

_STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; }
th, td { padding: 0.3rem 0.8rem; border-bottom: 1px solid #d8dee6; text-align: left; vertical-align: top; }
svg { display: block; margin: 0.5rem 0 1.5rem; }
svg text { fill: currentColor; }
.note { color: #5b6b7b; }
@media (prefers-color-scheme: dark) {
  body { background: #12181f; color: #dde4ea; }
  th, td { border-color: #34414d; }
  .note { color: #9fb0bf; }
  svg circle { fill: #9cc8f2; }
}
"""
_WIDTH, _HEIGHT, _LABEL = 640, 34, 160


def comparison_section(comparisons: Sequence[Comparison]) -> str:
    """A `<section>` for candidates against one baseline: deltas with intervals, a forest plot, flipped rows. No script, no
    link."""
    parts = ['<section class="comparison">', f"<h2>Compared with {_text(comparisons[0].baseline)}</h2>", _forest(comparisons)]
    for comparison in comparisons:
        parts += _candidate(comparison)
    return "\n".join([*parts, "</section>"]) + "\n"


def comparison_page(comparisons: Sequence[Comparison]) -> bytes:
    """A complete document around the section."""
    title = f"{comparisons[0].baseline} compared"
    return b"".join(document(title, _STYLE, [comparison_section(comparisons)]))


def _candidate(comparison: Comparison) -> Iterator[str]:
    yield f"<h3>{_text(comparison.candidate)}</h3>"
    yield (
        f'<p class="note">{counted(comparison.paired_rows, "row")} paired by {_text(comparison.paired_by)}; '
        f"{comparison.baseline_only} only in the baseline, {comparison.candidate_only} only in the candidate.</p>"
    )
    yield from (f'<p class="note">{_text(note)}</p>' for note in comparison.notes)
    yield from table(with_confidence(DELTA_HEADER, comparison.confidence), delta_rows(comparison))
    if comparison.slices:
        yield from table(with_confidence(SLICE_HEADER, comparison.confidence), slice_rows(comparison))
    if comparison.flips:
        yield f"<h4>Rows that changed ({len(comparison.flips)})</h4>"
        yield from table(FLIP_HEADER, flip_rows(comparison))


def _forest(comparisons: Sequence[Comparison]) -> str:
    """The differences of the pass rate with their intervals around 0, as an inline drawing."""
    reach = max([0.05, *(abs(end) for comparison in comparisons for end in _ends(comparison.pass_rate))]) * 1.1
    height = _HEIGHT * (len(comparisons) + 1)

    def x(value: float) -> str:
        return f"{_LABEL + (_WIDTH - _LABEL) * (value + reach) / (2 * reach):.1f}"

    label = "Difference of the pass rate, candidate minus baseline, with its interval"
    lines = [f'<svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">']
    lines.append(f'<line x1="{x(0)}" y1="4" x2="{x(0)}" y2="{height - _HEIGHT}" stroke="#9aa7b4" stroke-dasharray="3 3"/>')
    for position, comparison in enumerate(comparisons):
        y = _HEIGHT * position + _HEIGHT // 2
        name = _text(comparison.candidate[:22])
        lines.append(f'<text x="0" y="{y + 5}" font-size="13">{name}</text>')
        estimate = comparison.pass_rate.difference
        if estimate.low is not None and estimate.high is not None:
            ends = f'x1="{x(estimate.low)}" y1="{y}" x2="{x(estimate.high)}" y2="{y}"'
            lines.append(f'<line {ends} stroke="#2f6fb0" stroke-width="3"/>')
        if estimate.value is not None:
            lines.append(f'<circle cx="{x(estimate.value)}" cy="{y}" r="5" fill="#173f66"/>')
    for value in (-reach / 1.1, 0.0, reach / 1.1):
        text = f"{value * 100:+.1f}" if value else "0"
        lines.append(f'<text x="{x(value)}" y="{height - 10}" font-size="12" text-anchor="middle">{text}</text>')
    return "\n".join([*lines, "</svg>"])


def _ends(difference: Difference) -> list[float]:
    estimate = difference.difference
    return [end for end in (estimate.value, estimate.low, estimate.high) if end is not None]

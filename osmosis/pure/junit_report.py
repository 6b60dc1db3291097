"""A run as JUnit XML, a test case a planned sample, for the test pages of CI systems (issue 8).

JUnit tells a `failure`, an assertion that does not hold, from an `error`, a test that did not get that far. So a sample that
was graded below the threshold, or left without a reward, is a `failure`; one that failed in its workflow, its grader or the
infrastructure is an `error`, whose type is the `error_type`. Skipped and pending samples are `skipped`. A sample's metrics and
its row's metadata are properties of its case, `metric.NAME` and `metadata.KEY`. Whatever a model wrote, the document is well
formed: characters that XML 1.0 cannot hold become U+FFFD (XML 1.0 section 2.2), everything else is escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping

import msgspec

from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.index import IndexRow
from osmosis.pure.journal import Status, WorkItem
from osmosis.pure.plan import work_items
from osmosis.pure.sample_details import NO_DETAILS, SampleDetails, flat
from osmosis.pure.stored_run import StoredRun
from osmosis.pure.tally import is_graded, passed

_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_CHARACTERS = {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}

MOST_CASES = 1_000_000


class Outcome(msgspec.Struct, frozen=True):
    """What a test case says: its element (None for a pass), the attributes of that, and its text."""

    element: str | None
    message: str = ""
    kind: str = ""
    text: str = ""


def encode_junit(run: StoredRun, details: Mapping[WorkItem, SampleDetails]) -> bytes:
    """The document: one suite for the run, one case for each planned sample, in order of row and run. Raises OsmosisError for
    more than `MOST_CASES`, which no CI page shows."""
    if run.planned > MOST_CASES:
        raise OsmosisError(
            f"Run {run.name} plans {run.planned} samples, and a JUnit document holds at most {MOST_CASES} test cases.",
            problems=[Problem(run.location, f"{len(run.index)} of them have a result")],
            hint="Export it as parquet, csv or jsonl.",
        )
    by_item = {WorkItem(row.row_index, row.run_index): row for row in run.index}
    items = list(work_items(len(run.source_rows), run.planned // max(len(run.source_rows), 1)))
    outcomes = [(item, by_item.get(item), _outcome(run, item, by_item.get(item))) for item in items]
    counts = {
        name: str(sum(outcome.element == element for _, _, outcome in outcomes))
        for name, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    seconds = _seconds(sum(row.duration_ms for row in run.index))
    totals = {"name": run.name, "tests": str(len(items)), **counts, "time": seconds}
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        _tag("testsuites", totals),
        "  " + _tag("testsuite", {**totals, "timestamp": run.manifest.created_at}),
        "    <properties>",
        *(f"      {_tag('property', {'name': name, 'value': value}, close=True)}" for name, value in _properties(run)),
        "    </properties>",
        *(line for item, row, outcome in outcomes for line in _case(run, item, row, outcome, details.get(item, NO_DETAILS))),
        "  </testsuite>",
        "</testsuites>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _properties(run: StoredRun) -> list[tuple[str, str]]:
    return [
        ("model", run.model),
        ("dataset", str(run.manifest.provenance.get("dataset_name", ""))),
        ("pass_threshold", repr(run.pass_threshold)),
        ("local_run_id", run.manifest.local_run_id),
    ]


def _case(run: StoredRun, item: WorkItem, row: IndexRow | None, outcome: Outcome, details: SampleDetails) -> Iterator[str]:
    source = run.source_rows[item.row_index]
    attributes = {
        "classname": f"{run.manifest.provenance.get('dataset_name') or run.name}.row_{source}",
        "name": f"row {source} run {item.run_index}",
        "time": _seconds(row.duration_ms if row else 0.0),
    }
    properties = {**flat(details.metrics, "metric"), **flat(details.metadata, "metadata")}
    if outcome.element is None and not properties:
        yield "    " + _tag("testcase", attributes, close=True)
        return
    yield "    " + _tag("testcase", attributes)
    yield from _case_properties(properties)
    if outcome.element is not None:
        yield _ending(outcome)
    yield "    </testcase>"


def _case_properties(properties: Mapping[str, str]) -> Iterator[str]:
    """What the sample carries, as the properties of its case, which come before its outcome."""
    if properties:
        yield "      <properties>"
        yield from (
            f"        {_tag('property', {'name': name, 'value': value}, close=True)}" for name, value in properties.items()
        )
        yield "      </properties>"


def _ending(outcome: Outcome) -> str:
    element = outcome.element or ""
    given = {"message": outcome.message, "type": outcome.kind}
    shown = {name: value for name, value in given.items() if value}
    if outcome.text:
        return f"      {_tag(element, shown)}{_escaped(outcome.text)}</{element}>"
    return "      " + _tag(element, shown, close=True)


def _outcome(run: StoredRun, item: WorkItem, row: IndexRow | None) -> Outcome:
    if row is None:
        return Outcome("skipped", "pending: the run has no result for this sample")
    if row.status is Status.SKIPPED:
        return Outcome("skipped", "removed by the grader")
    if row.status is Status.FAILED:
        result = run.results.get(item)
        message = (result.error_message if result else None) or row.error_type or "failed"
        return Outcome("error", message.split("\n")[0][:200], row.error_type or "", f"{message}\n{_context(run, item)}")
    if not is_graded(row.status, row.reward):
        return Outcome("failure", "the sample was not graded", "not_graded", _context(run, item))
    if not passed(row.reward, run.pass_threshold):
        message = f"the reward {row.reward!r} is below the threshold {run.pass_threshold!r}"
        return Outcome("failure", message, "below_threshold", _context(run, item))
    return Outcome(None)


def _context(run: StoredRun, item: WorkItem) -> str:
    if run.dataset_rows is None:
        return ""
    row = run.dataset_rows[item.row_index]
    return f"prompt: {row.prompt}\nlabel: {row.label or ''}"


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3f}"


def _tag(name: str, attributes: dict[str, str], *, close: bool = False) -> str:
    words = [name, *(f'{key}="{_attribute(value)}"' for key, value in attributes.items())]
    return f"<{' '.join(words)}{'/' if close else ''}>"


def _escaped(text: str) -> str:
    return html.escape(_INVALID.sub("\N{REPLACEMENT CHARACTER}", text), quote=True).replace("\r", "&#13;")


def _attribute(text: str) -> str:
    escaped = html.escape(_INVALID.sub("\N{REPLACEMENT CHARACTER}", text), quote=True)
    return "".join(_LINE_CHARACTERS.get(character, character) for character in escaped)

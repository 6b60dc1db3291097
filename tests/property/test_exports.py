"""Exports hold whatever a model wrote: well-formed XML, CSV that runs nothing, annotations that command nothing (issue 8)."""

from __future__ import annotations

import csv
import io
import json
import re
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.github_report import ANNOTATION_LIMIT, step_summary, workflow_annotations, workflow_command
from osmosis.pure.journal import Status, WorkItem
from osmosis.pure.junit_report import encode_junit
from osmosis.pure.metrics import summarize
from osmosis.pure.plan import work_items
from osmosis.pure.presentation import one_line
from osmosis.pure.sample_details import NO_DETAILS, SampleDetails, as_number, metric_means
from osmosis.pure.sample_table import (
    COLUMNS,
    DETAIL_COLUMNS,
    MOST_METRIC_COLUMNS,
    detailed_table,
    encode_csv,
    encode_jsonl,
    sample_table,
)
from osmosis.pure.stored_run import samples_frame
from tests.strategies.comparisons import hostile_text, sample_details, stored_run, tables

ANNOTATION = re.compile(r"^::(error|warning|notice) title=[^:,\r\n]*::[^\r\n]*$")


def parsed(document):
    """The document as a parser of somebody else sees it."""
    return ET.fromstring(document)  # noqa: S314 - our own document


@st.composite
def runs(draw):
    """Runs whose every text is hostile."""
    cells = draw(tables)
    size = len(cells)
    return stored_run(
        draw(hostile_text),
        cells,
        prompts=draw(st.lists(hostile_text, min_size=size, max_size=size)),
        labels=draw(st.lists(hostile_text, min_size=size, max_size=size)),
        message=draw(hostile_text),
        planned_runs=4,
    )


@given(runs())
def test_junit_is_well_formed_and_counts(run):
    """Any parser reads it; every planned sample is a case; the totals are those of the cases."""
    document = parsed(encode_junit(run, {}))
    suite = document.find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    assert len(cases) == run.planned == int(suite.get("tests", ""))
    for name, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(name, "")) == sum(case.find(element) is not None for case in cases)
    threshold = run.pass_threshold
    passed = sum(row.status is Status.SUCCESS and row.reward is not None and row.reward >= threshold for row in run.index)
    assert sum(len(case) == 0 for case in cases) == passed


@given(hostile_text)
def test_junit_keeps_what_xml_can_hold(text):
    """A prompt comes back as it was, but for characters that XML has no way to write."""
    run = stored_run("run", [[0.0]], prompts=[text], labels=[""])
    failure = parsed(encode_junit(run, {})).find(".//failure")
    assert failure is not None
    kept = "".join(c if re.match("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", c) else "\ufffd" for c in text)
    assert failure.text == f"prompt: {kept}\nlabel: "


TEXTS = ("rollout_id", "status", "error_type", "error_origin", "error_message", "prompt", "label")
FORMULA = re.compile("'*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]")
STEERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")


def text_of(cell: str) -> str:
    """What a cell of ours says, by the rules of `osmosis.pure.sample_table`."""
    plain = cell.removeprefix("'") if FORMULA.match(cell) else cell
    return re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), plain)


@st.composite
def runs_with_details(draw):
    """A hostile run, some of whose samples have metrics and metadata, whose names and texts are hostile too."""
    run = draw(runs())
    items = [WorkItem(row.row_index, row.run_index) for row in run.index]
    kept = [item for item in items if draw(st.booleans())]
    return run, {item: draw(sample_details) for item in kept}


@given(runs_with_details())
def test_junit_cases_carry_what_their_samples_carry(made):
    """A property for each metric and each key of the metadata, in every kind of case, and outcomes as without them."""
    run, details = made
    document, bare = parsed(encode_junit(run, details)), parsed(encode_junit(run, {}))
    for items, case, plain in zip(
        work_items(len(run.source_rows), 4), document.iter("testcase"), bare.iter("testcase"), strict=True
    ):
        held = details.get(items, NO_DETAILS)
        names = [given.get("name") for given in case.iterfind("properties/property")]
        assert len(names) == len(held.metrics or {}) + len(held.metadata or {})
        assert all(name.startswith(("metric.", "metadata.")) for name in names)
        assert [(part.tag, part.attrib, part.text) for part in case if part.tag != "properties"] == [
            (part.tag, part.attrib, part.text) for part in plain
        ]


@given(runs_with_details())
def test_tables_carry_what_samples_carry(made):
    """JSON text that means the stored objects, and a column for each metric that is a number anywhere: the number, or nothing.
    A CSV reader finds the same, under names that start no formula; Parquet holds the very table."""
    run, details = made
    table = detailed_table(run, details)
    held = [details.get(WorkItem(*item), NO_DETAILS) for item in table.select("row_index", "run_index").iter_rows()]
    named = {name for one in held for name, value in (one.metrics or {}).items() if as_number(value) is not None}
    assert table.columns == [*COLUMNS, *DETAIL_COLUMNS, *(f"metric.{name}" for name in sorted(named))]
    assert [json.loads(text) if text else None for text in table["metrics"]] == [one.metrics for one in held]
    assert [json.loads(text) if text else None for text in table["metadata"]] == [one.metadata for one in held]
    for name in named:
        assert table[f"metric.{name}"].to_list() == [as_number((one.metrics or {}).get(name)) for one in held]
    header, *lines = csv.reader(io.StringIO(encode_csv(table).decode(), newline=""))
    assert list(map(text_of, header)) == table.columns
    for line, row in zip(lines, table.iter_rows(), strict=True):
        assert [float(cell) if cell else None for cell in line[len(COLUMNS) + 2 :]] == list(row[len(COLUMNS) + 2 :])
    parquet = io.BytesIO()
    table.write_parquet(parquet)
    assert pl.read_parquet(parquet.getvalue()).equals(table)


def test_more_metrics_than_columns():
    """Those that most samples have become columns; the others stand in the JSON text all the same."""
    run = stored_run("run", [[1.0, 1.0]])
    rare = {f"m{number:03}": number for number in range(MOST_METRIC_COLUMNS + 5)}
    table = detailed_table(run, {WorkItem(0, 0): SampleDetails(rare), WorkItem(0, 1): SampleDetails({"m104": 1})})
    columns = [name for name in table.columns if name.startswith("metric.")]
    assert len(columns) == MOST_METRIC_COLUMNS
    assert "metric.m104" in columns
    assert "metric.m099" not in columns
    assert json.loads(table["metrics"][0]) == rare


@given(runs())
def test_csv_reads_back_and_starts_no_formula(run):
    """A header and a line a sample; no text cell begins like a formula; every text comes back; numbers are as they were."""
    table = sample_table(run)
    lines = list(csv.DictReader(io.StringIO(encode_csv(table).decode(), newline="")))
    assert len(lines) == len(run.index)
    assert list(table.columns) == list(COLUMNS)
    for line, row in zip(lines, table.iter_rows(named=True), strict=True):
        assert not any((line[name] or " ")[0] in "=+-@\t\r\uff1d\uff0b\uff0d\uff20" for name in TEXTS)
        assert {name: text_of(line[name]) for name in TEXTS} == {name: row[name] or "" for name in TEXTS}
        assert (float(line["reward"]) if line["reward"] else None) == row["reward"]
        assert line["passed"] == ("true" if row["passed"] else "false")


@given(st.text(st.sampled_from("\\x5c1b0d'=+\r\n\t\0\x1b\x9b\x7f\u2028é \",") | st.characters(codec="utf-8")))
def test_any_text_comes_back_from_csv(text):
    """Escapes that a model wrote itself are not taken for ours, apostrophes neither; nothing in the file steers a terminal."""
    data = encode_csv(pl.DataFrame({"label": [text]}, schema={"label": pl.String})).decode()
    (header, *rest) = csv.reader(io.StringIO(data, newline=""))
    assert header == ["label"]
    assert text_of(rest[0][0] if rest and rest[0] else "") == text
    assert not STEERS.search(data)


def test_what_csv_escapes_look_like():
    """The rules, spelled out."""
    cells = {
        "\x1b[2J": r"\x1b[2J",
        "\0": r"\x00",
        "\x9b": r"\x9b",
        "a\rb": r"a\x0db",
        "a\r\nb\tc": '"a\r\nb\tc"',
        r"C:\new\x1b": r"C:\new\x5cx1b",
        r"\x5C": r"\x5C",
        "=1": "'=1",
        "'=1": "''=1",
        "'a": "'a",
        "\r=1": r"\x0d=1",
    }
    for text, cell in cells.items():
        assert encode_csv(pl.DataFrame({"label": [text]})).decode() == f"label\n{cell}\n"


@given(runs_with_details())
def test_jsonl_reads_back(made):
    """Each line is strict JSON with every column, and the values are the table's; metrics and metadata are the stored objects;
    no reader sees other lines, no terminal is steered."""
    run, details = made
    table = sample_table(run)
    data = b"".join(encode_jsonl(table, details)).decode()
    assert len(data.splitlines()) == data.count("\n") == len(run.index)
    assert not STEERS.search(data)
    rows = [json.loads(line) for line in data.splitlines()]
    for decoded, row in zip(rows, table.iter_rows(named=True), strict=True):
        assert list(decoded) == [*COLUMNS, "metrics", "metadata"]
        held = details.get(WorkItem(row["row_index"], row["run_index"]), NO_DETAILS)
        assert decoded == {**row, "metrics": held.metrics, "metadata": held.metadata}


@given(runs())
def test_annotations_are_commands_of_ours_alone(run):
    """Each line is one well-formed command; nothing that came in can begin another; each level stays within the limit."""
    lines = workflow_annotations(run)
    for line in lines:
        assert ANNOTATION.match(line), line
        assert one_line(line) == line
    assert sum(line.startswith("::error") for line in lines) <= ANNOTATION_LIMIT
    assert sum(line.startswith("::warning") for line in lines) <= ANNOTATION_LIMIT


@given(hostile_text, hostile_text)
def test_a_command_decodes_to_what_it_says(title, message):
    """Decoded as GitHub's runner does, percent signs come back, and line ends were made harmless before."""
    _, properties, data = workflow_command("error", title, message).split("::", 2)
    decoded = data.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
    assert "\n" not in decoded
    assert decoded.count("%") == message.count("%")
    assert ":" not in properties.removeprefix("error title=")


@given(runs_with_details())
def test_the_summary_is_a_table_of_ours_alone(made):
    """Every table row has its cells, and foreign text is no Markdown: in `<code>` stand letters, digits and references."""
    run, details = made
    summary = summarize(samples_frame(run), run.pass_threshold, seed="seed", planned=run.planned)
    text = step_summary(run, summary, metric_means(tuple(details.values()))).decode()
    assert "\x1b" not in text
    for foreign in re.findall(r"<code>(.*?)</code>", text):
        assert not re.search(r"[`*_\[\]<>|@!\\~]", foreign)
        assert re.fullmatch(r"(?:&#\d+;|[^!-/:-@\[-`{-~])*", foreign), foreign
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.count("|") == 4


def test_pending_samples_are_skipped_cases():
    """A partial run's document has a case for what is still to come."""
    document = parsed(encode_junit(stored_run("run", [[1.0], [0.0]], planned_runs=2), {}))
    messages = [skipped.get("message") for skipped in document.iter("skipped")]
    assert messages == ["pending: the run has no result for this sample"] * 2


@pytest.mark.parametrize("cell", ["agent_error", "validation_error", "timeout", "server_crash", "free text"])
def test_what_crashed_is_an_error(cell):
    """A sample without an outcome, whoever's fault that is, counts as an error with its type and not as a failure."""
    document = parsed(encode_junit(stored_run("run", [[cell]], message="first line\nsecond"), {}))
    found = document.find(".//error")
    assert found is not None
    assert (found.get("type"), found.get("message")) == (cell, "first line")
    assert (document.get("failures"), document.get("errors")) == ("0", "1")


@pytest.mark.parametrize(("cell", "kind"), [(0.0, "below_threshold"), (None, "not_graded")])
def test_what_ran_and_did_not_pass_is_a_failure(cell, kind):
    """An outcome below the threshold, or none, is an assertion that does not hold."""
    document = parsed(encode_junit(stored_run("run", [[cell]]), {}))
    found = document.find(".//failure")
    assert found is not None
    assert found.get("type") == kind
    assert (document.get("failures"), document.get("errors")) == ("1", "0")

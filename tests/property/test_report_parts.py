"""The parts of the HTML report that decide: bins, conversations, packs, the page's policy."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from math import isfinite
from typing import Any

import msgspec
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.charts import COLOURS, Chart, context_chart, pass_curve_chart, reward_chart, time_chart, token_chart
from osmosis.pure.conversation import Conversation, TextLimits, conversation, limits_for
from osmosis.pure.histogram import histogram
from osmosis.pure.html_page import data_block, document
from osmosis.pure.metrics import summarize
from osmosis.pure.presentation import neutralise
from osmosis.pure.report_page import Figure, ReportParts, report_page
from osmosis.pure.report_samples import Outcome, SampleTexts, pack_blocks, sample_list, sample_texts
from osmosis.pure.sample_details import MetricMean, SampleDetails, json_text, metric_means, sample_details
from osmosis.pure.stored_run import StoredRun, samples_frame
from osmosis.pure.trajectory import Agent, Step, Trajectory, encode_trajectory
from tests.strategies.comparisons import hostile_text, stored_run, tables, trajectory_file

numbers = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-5, 5) | st.integers(0, 10**6).map(float)


@given(st.lists(numbers, min_size=1, max_size=60))
def test_every_value_is_in_one_bin(values: list[float]) -> None:
    """Counts add up, bins are in order and touch, there are few, and no edge is infinite, whatever the values."""
    bins = histogram(values)
    assert sum(part.count for part in bins) == len(values)
    assert len(bins) <= 22
    assert all(isfinite(part.start) and isfinite(part.end) and part.start <= part.end for part in bins)
    assert all(one.end <= other.start for one, other in pairwise(bins))


@given(st.lists(st.integers(0, 500).map(float), min_size=30, max_size=60))
def test_counts_of_bins_are_those_of_their_edges(values: list[float]) -> None:
    """Counting again by the edges, with the last bin closed, gives the same counts, in any order of the values."""
    bins = histogram(values)
    assert histogram(values[::-1]) == bins
    for number, part in enumerate(bins):
        closed = number == len(bins) - 1 or part.start == part.end
        inside = [value for value in values if part.start <= value and (value < part.end or (closed and value <= part.end))]
        assert part.count == len(inside)


@given(tables)
def test_charts_say_the_same_in_words(table) -> None:
    """The table beside a picture counts what the picture's data count, and only the exchangeable colours are used."""
    run = stored_run("a", table)
    samples = samples_frame(run)
    summary = summarize(samples, 1.0, seed="s", planned=run.planned)
    charts: list[Chart] = [make(samples) for make in (reward_chart, context_chart, token_chart, time_chart)]
    for chart in charts:
        values = json.loads(chart.specification)["data"]["values"]
        assert [f"{bar['count']:,}" for bar in values] == [row[1] for row in chart.rows]
    assert sum(int(row[1]) for row in charts[0].rows) == summary.graded
    assert summary.uncertainty is not None
    curve = pass_curve_chart(summary.uncertainty.pass_at_k, summary.uncertainty.pass_hat_k)
    assert len(curve.rows) == len(summary.uncertainty.pass_at_k) + len(summary.uncertainty.pass_hat_k)
    colours = set(re.findall(rb"#[0-9a-f]{6}", b"".join(chart.specification for chart in [*charts, curve])))
    assert colours <= {colour.encode() for colour in COLOURS}


def told(words: str) -> bytes:
    """A document whose every step says `words`."""
    steps = [Step(step_id=number, source="agent", message=words, reasoning_content=words) for number in (1, 2, 3)]
    return encode_trajectory(Trajectory(session_id="s", agent=Agent(name="a", version="1"), steps=steps))


@given(st.text(max_size=200), st.integers(0, 50), st.integers(1, 300))
def test_texts_are_cut_and_the_cut_is_said(words: str, passage: int, sample: int) -> None:
    """No more than the limits is kept, what is missing is counted, and no turn disappears without being counted."""
    words = words.encode("utf-8", "replace").decode()
    shown = conversation(told(words), TextLimits(passage, sample))
    assert len(shown.turns) + shown.left_out == 3
    assert all(turn.message.more <= len(words) for turn in shown.turns)
    if words.isalnum():
        kept = [part for turn in shown.turns for part in (turn.message, turn.reasoning) if part is not None]
        assert all(len(part.text) <= passage and len(part.text) + part.more == len(words) for part in kept)
        assert sum(len(part.text) for part in kept) <= sample


@given(st.binary(max_size=60) | st.none())
def test_a_document_that_is_none_is_said(document_bytes: bytes | None) -> None:
    """Whatever lies in a trajectory's place gives a reason instead of turns, and never an error."""
    assert conversation(document_bytes, TextLimits()).trouble


def test_a_document_cut_anywhere_is_said() -> None:
    """Every beginning of a document but the whole of it has its reason."""
    whole = told("words")
    assert all(conversation(whole[:length], TextLimits()).trouble for length in range(len(whole)))
    assert conversation(whole, TextLimits()).trouble == ""


def test_limits_shrink_with_the_run() -> None:
    """A small run keeps long texts; one of 20,000 samples at most 160 million characters."""
    assert limits_for(1) == TextLimits()
    assert limits_for(20_000).sample * 20_000 <= 160_000_000
    assert limits_for(10**9).passage >= 100


class Scripts(HTMLParser):
    """Collects elements and the contents of scripts by their id."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.contents: dict[str | None, str] = {}
        self._open: str | None = None
        self._inside = False

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self._inside = tag == "script"
        self._open = dict(attrs).get("id")

    def handle_endtag(self, tag) -> None:
        self._inside = False

    def handle_data(self, data) -> None:
        if self._inside:
            self.contents[self._open] = self.contents.get(self._open, "") + data


_USUAL = TextLimits()


def shown(run: StoredRun, sample: dict[str, Any], trajectory: bytes, limits: TextLimits = _USUAL) -> SampleTexts:
    """The texts of a sample with what its trajectory holds of it."""
    return sample_texts(run, sample, trajectory, sample_details(trajectory, sample["rollout_id"]), limits)


@given(tables, hostile_text)
def test_the_page_holds_hostile_text(table, words) -> None:
    """Nothing that a model wrote becomes an element; the list and the packs come out of the page as they went in."""
    attack = f"</script><script>alert(1)</script><img src=x onerror=alert(1)>{words}"
    run = stored_run("a", table, prompts=[attack] * len(table), labels=[attack] * len(table), message=attack)
    samples = samples_frame(run)
    summary = summarize(samples, 1.0, seed="s", planned=run.planned)
    said = attack.encode("utf-8", "replace").decode()
    carried = {said: 1.0, "text": said}
    texts = [
        shown(run, sample, trajectory_file(sample["rollout_id"], carried, carried, said))
        for sample in samples.iter_rows(named=True)
    ]
    means = metric_means([SampleDetails(carried)])
    parts = ReportParts(run, summary, None, (Figure(reward_chart(samples), "<svg></svg>"),), means=means)
    listed = sample_list(run, samples, metered=True)
    page = b"".join(report_page(parts, listed, pack_blocks(texts), style="p {}", script="void 0;")).decode()
    found = Scripts()
    found.feed(page)
    assert "img" not in found.tags
    packs = -(-len(texts) // 64)
    assert found.tags.count("script") == 2 + packs
    assert json.loads(found.contents["sample-list"]) == msgspec.to_builtins(listed)
    unpacked = [
        line for number in range(packs) for line in json.loads(zlib.decompress(b64decode(found.contents[f"pack-{number}"])))
    ]
    assert unpacked == json.loads(msgspec.json.encode(texts))
    assert "\x1b" not in page


@given(st.dictionaries(st.sampled_from("abc"), st.text(max_size=30) | st.integers(), min_size=1), st.integers(1, 40))
def test_details_are_entries_a_line_and_cut_like_any_text(metadata: dict[str, object], most: int) -> None:
    """A sample shows what its trajectory holds of it, as JSON and no longer than the limit; without any it shows none."""
    run = stored_run("a", [[1.0]])
    [sample] = samples_frame(run).iter_rows(named=True)
    whole = shown(run, sample, trajectory_file(sample["rollout_id"], {}, metadata))
    assert whole.metrics is None
    assert whole.metadata is not None
    assert whole.metadata.text == neutralise("\n".join(f"{key}: {json_text(value)}" for key, value in metadata.items()))
    cut = shown(run, sample, trajectory_file(sample["rollout_id"], {}, metadata), TextLimits(most, 100)).metadata
    assert cut is not None
    assert cut.more == max(sum(len(f"{key}: {json_text(value)}\n") for key, value in metadata.items()) - 1 - most, 0)
    assert shown(run, sample, trajectory_file("another", {}, metadata)).metadata is None


def test_the_summary_lists_means_and_over_what() -> None:
    """Of many metrics the most common ones, and how many others there are; without any there is no such section."""
    run = stored_run("a", [[1.0]])
    samples = samples_frame(run)
    summary = summarize(samples, 1.0, seed="s", planned=run.planned)

    def page(*means: MetricMean) -> str:
        parts = ReportParts(run, summary, None, (), means=means)
        return b"".join(report_page(parts, sample_list(run, samples), (), style="", script="")).decode()

    assert "Metrics of the samples" not in page()
    shown = page(MetricMean("overlap", 0.25, 18, 1, 1))
    assert "<td>overlap</td><td>0.250</td><td>18 of 20 samples, 1 missing, 1 no number</td>" in shown
    many = page(*(MetricMean(f"m{number:02}", 1.0, number + 1, 0, 0) for number in range(60)))
    assert "<td>m09</td>" not in many
    assert "<td>m10</td>" in many
    assert "10 metrics that fewer samples have are left out." in many


def test_the_policy_names_the_digests() -> None:
    """The only style and script that a browser accepts are the page's own; a page without a script allows none."""
    page = b"".join(document("t", "p { color: red }", ["x"], "void 0;")).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    for content in ("p { color: red }", "void 0;"):
        assert f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" in policy[1]
        assert f">{content}<" in page
    assert policy[1].startswith("default-src 'none'; ")
    assert "script-src" not in b"".join(document("t", "", ["x"])).decode()


@given(st.text())
def test_data_cannot_end_its_block(content: str) -> None:
    """No `<` is left in a block of data, and JSON means the same."""
    block = data_block("x", "application/json", json.dumps(content, ensure_ascii=False))
    inner = block.removeprefix('<script type="application/json" id="x">').removesuffix("</script>\n")
    assert "<" not in inner
    assert json.loads(inner) == content


def test_outcomes_are_those_of_the_metrics() -> None:
    """Passed, failed and skipped samples of the list are as many as the summary counts."""
    run = stored_run("a", [[1.0, 0.0, None], ["timeout", "skipped", 1.0]])
    samples = samples_frame(run)
    listed = sample_list(run, samples)
    counts = pl.Series([listed.outcomes[number] for number in listed.outcome]).value_counts()
    assert dict(counts.iter_rows()) == {
        Outcome.PASSED: 2,
        Outcome.NOT_PASSED: 1,
        Outcome.UNGRADED: 1,
        Outcome.FAILED: 1,
        Outcome.SKIPPED: 1,
    }
    assert list(pack_blocks([])) == []
    assert Conversation().turns == ()

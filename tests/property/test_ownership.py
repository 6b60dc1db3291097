"""Ownership telemetry: what a record says, when there is none, and its bytes (rollout_protocol section 7.9)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.ownership import (
    MAX_TEXT,
    Run,
    Server,
    encode_logs,
    exporter_headers,
    ownership_record,
    run_of,
    usable_text,
)
from osmosis.pure.protocol import RolloutStatus


def record(server, run, rollout_id="r-1"):
    """A record of a running rollout."""
    return ownership_record(server, run, rollout_id, RolloutStatus.RUNNING, sequence=2, time_unix_nano=1)


@given(st.text())
def test_texts_are_printable_and_short_or_absent(text):
    """Nothing else reaches a collector."""
    usable = usable_text(text)
    assert usable in (None, text)
    if usable is not None:
        assert usable.strip()
        assert usable.isprintable()
        assert len(usable) <= MAX_TEXT


@given(st.text(), st.text())
def test_no_name_no_record(server_id, rollout_id):
    """A record names its server and its rollout, or there is none."""
    told = record(Server(server_id), Run(), rollout_id)
    assert (told is None) == (usable_text(server_id) is None or usable_text(rollout_id) is None)


@pytest.mark.parametrize(
    ("metadata", "run"),
    [
        (None, Run()),
        ({}, Run()),
        ({"osmosis_observability": 3}, Run()),
        ({"osmosis_observability": {"run_id": "a", "run_name": "b"}}, Run("a", "b")),
        ({"osmosis_observability": {"run_id": 1, "run_name": "b\n"}}, Run()),
        ({"osmosis_observability": {"run_id": "x" * 513, "run_name": "x" * 512}}, Run(None, "x" * 512)),
    ],
)
def test_the_run_of_a_row(metadata, run):
    """Whatever a row's metadata holds."""
    assert run_of(metadata) == run


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("", {}),
        ("Authorization=Bearer%20x, X-Team = a%2Cb", {"authorization": "Bearer x", "x-team": "a,b"}),
        ("broken,=x,a=", {"a": ""}),
    ],
)
def test_headers_of_the_exporter(text, headers):
    """As OpenTelemetry's own variable has them."""
    assert exporter_headers(text) == headers


def test_what_a_record_says():
    """Names where they are known, status and sequence always."""
    told = record(Server("s", "n", "p"), Run("i", "m"))
    assert told is not None
    assert dict(told.attributes) == {
        "event": "rollout.ownership",
        "rollout_id": "r-1",
        "server_id": "s",
        "server_name": "n",
        "namespace": "p",
        "run_id": "i",
        "run_name": "m",
        "status": "running",
        "event_sequence": 2,
    }


def test_the_body_is_json():
    """Whatever the names hold."""
    told = record(Server("ünï"), Run("\N{GRINNING FACE}", None), "é")
    assert told is not None
    json.loads(encode_logs([told], sdk_version="1"))

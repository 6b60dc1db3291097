"""When the bridge may try a call again by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.retry_policy import BACKOFF_SECONDS, PATIENCE_SECONDS, RETRIED_STATUSES, parse_retry_after, retry_delay

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
jitters = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 10), st.none() | st.integers(100, 599), jitters)
def test_retries_are_bounded_and_only_where_safe(tries, status, jitter):
    """Nothing is repeated beyond the bound, nor after an answer that stands; a pause is within its back-off."""
    delay = retry_delay(tries, status, None, now=NOW, jitter=jitter)
    allowed = tries <= len(BACKOFF_SECONDS) and (status is None or status in RETRIED_STATUSES)
    assert (delay is not None) == allowed
    if delay is not None:
        assert BACKOFF_SECONDS[tries - 1] / 2 <= delay <= BACKOFF_SECONDS[tries - 1]


@pytest.mark.parametrize("status", [200, 301, 400, 401, 403, 404, 409, 413, 422, 499])
def test_answers_that_stand_are_never_repeated(status):
    """A success, a redirect and a refusal are final."""
    assert retry_delay(1, status, "1", now=NOW, jitter=0.5) is None


@given(st.floats(0, 100), jitters)
def test_retry_after_is_honoured_or_handed_on(seconds, jitter):
    """The bridge never comes back earlier than asked, and leaves long waits to the rollout."""
    delay = retry_delay(1, 429, f"{seconds:.3f}", now=NOW, jitter=jitter)
    asked = float(f"{seconds:.3f}")
    assert (delay is None) == (asked > PATIENCE_SECONDS)
    assert delay is None or delay >= asked


@given(st.integers(-100, 10_000))
def test_retry_after_may_be_a_date(seconds):
    """An HTTP date counts from now; one in the past asks for no wait."""
    header = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert parse_retry_after(header, NOW) == max(0, seconds)


@given(st.text(max_size=30))
def test_unreadable_headers_are_ignored(header):
    """Whatever the header says, the answer is None or a finite number of seconds from 0."""
    seconds = parse_retry_after(header, NOW)
    assert seconds is None or 0 <= seconds < float("inf")


@pytest.mark.parametrize("header", [None, "", "soon", "-5", "1e3", "NaN", "١٢", "Wed, 99 Foo 2026 00:00:00 GMT"])
def test_what_is_no_retry_after(header):
    """Missing, negative and fanciful values say nothing."""
    assert parse_retry_after(header, NOW) is None

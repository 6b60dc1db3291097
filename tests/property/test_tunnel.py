"""Which way rollouts take to the bridge, and what a tunnel program's words mean (E3, contract section 11)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import OsmosisError
from osmosis.pure.tunnel import Way, check_flags, choose_route, is_insecure, is_rate_limited, public_url


@pytest.mark.parametrize(
    ("tunnel", "url", "sandbox", "way"),
    [
        (None, None, None, Way.LOOPBACK),
        (None, None, "daytona", Way.TUNNEL),
        ("cloudflared", None, None, Way.TUNNEL),
        (None, "https://x.test", None, Way.ADVERTISED),
        (None, "https://x.test", "daytona", Way.ADVERTISED),
    ],
)
def test_flags_win_over_the_health_report(tunnel, url, sandbox, way):
    """A tunnel starts by itself only where the sandbox needs one and the person named no way."""
    route = choose_route(tunnel=tunnel, advertise_url=url, sandbox=sandbox)
    assert route.way is way
    assert (sandbox or "") in route.reason or url is not None


@pytest.mark.parametrize(
    ("tunnel", "url", "port", "problems"),
    [
        (None, None, None, 0),
        ("cloudflared", None, None, 0),
        (None, "https://x.test/base", 8080, 0),
        ("ngrok", None, None, 1),
        (None, "https://x.test", None, 1),
        ("cloudflared", "ftp://x.test", None, 3),
        (None, "https://x.test?a=b", 1, 1),
        (None, "https://u:p@x.test", 1, 1),
        (None, "https://", 1, 1),
        (None, "http://[", 1, 1),
    ],
)
def test_flags_that_do_not_go_together(tunnel, url, port, problems):
    """Every problem of the flags is told at once."""
    if not problems:
        check_flags(tunnel, url, port)
        return
    with pytest.raises(OsmosisError) as caught:
        check_flags(tunnel, url, port)
    assert len(caught.value.problems) == problems


@given(st.text(max_size=40), st.from_regex(r"\A[a-z0-9-]{1,30}\Z"), st.text(max_size=10))
def test_the_public_url_is_found_in_any_line(before, name, after):
    """Whatever stands around it, the URL is found; the address of Cloudflare's own API is none."""
    line = f"{before} https://{name}.trycloudflare.com |{after}"
    assert public_url(line) == (None if name == "api" else f"https://{name}.trycloudflare.com") or "trycloudflare" in before
    assert public_url("ERR https://api.trycloudflare.com/tunnel") is None
    assert public_url(f"https://{name}.trycloudflare.com.evil.test") is None


def test_words_and_schemes():
    """Signs of a rate limit are known; clear text is insecure everywhere but on this machine."""
    assert is_rate_limited("ERR error code: 1015")
    assert not is_rate_limited("INF Registered tunnel connection")
    assert is_insecure("http://host.test")
    assert not any(map(is_insecure, ["https://host.test", "http://localhost:1", "http://127.0.0.1:1"]))

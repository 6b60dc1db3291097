"""Who may reach which rollout's model (contract section 8.1)."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.bridge_route import Rejection, locate, rollout_path

TOKEN = "0123456789abcdef0123456789abcdef"
GOOD = f"Bearer {TOKEN}"
ids = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/"), min_size=1, max_size=20).filter(
    lambda text: text not in (".", "..")
)


@given(ids, st.sampled_from(["Bearer", "bearer", "BEARER", " bEaReR "]))
def test_the_url_that_we_hand_out_leads_home(rollout_id, scheme):
    """Any id survives the way through its own URL; the scheme's case does not matter."""
    assert locate("POST", f"{rollout_path(rollout_id)}/chat/completions", f"{scheme} {TOKEN}", TOKEN) == rollout_id


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/models", "/v1/rollouts/x", "/v1/rollouts/x/responses", "/v1/chat/completions", "/v1/rollouts/chat/completions"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_there_is_one_route(path, method):
    """Every other path is not found, with and without the token."""
    assert locate(method, path, GOOD, TOKEN) == Rejection(404, "Not Found")
    assert locate(method, path, None, TOKEN) == Rejection(404, "Not Found")


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "OPTIONS", "post"])
def test_there_is_one_method(method):
    """Another method is refused, and the right one is named."""
    assert locate(method, "/v1/rollouts/x/chat/completions", GOOD, TOKEN) == Rejection(405, "Method Not Allowed", "POST")


@given(st.none() | st.text(max_size=50) | st.text(max_size=40).map(lambda text: f"Bearer {text}"))
def test_only_the_token_opens(authorization):
    """Nothing but the token itself is let in, whatever bytes a header holds."""
    place = locate("POST", "/v1/rollouts/x/chat/completions", authorization, TOKEN)
    assert place == Rejection(401, "Unauthorized")


@pytest.mark.parametrize(
    "authorization", [f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer{TOKEN}"]
)
def test_near_misses_stay_out(authorization):
    """Another scheme, a longer or shorter token, and no space are refused."""
    assert isinstance(locate("POST", "/v1/rollouts/x/chat/completions", authorization, TOKEN), Rejection)


@pytest.mark.parametrize("segment", ["", ".", "..", "a/b", "a%2Fb", "%2e%2e", "a%0d%0ab", "a%00", "%ff/x"])
def test_an_id_is_one_plain_segment(segment):
    """An id with slashes, dots alone or control characters is invalid, encoded or not."""
    place = locate("POST", f"/v1/rollouts/{segment}/chat/completions", GOOD, TOKEN)
    assert place == Rejection(422, "invalid rollout_id")


@given(st.text(max_size=60))
def test_any_path_is_judged(path):
    """No path, however encoded, raises."""
    assert isinstance(locate("POST", quote(path, safe="/%"), GOOD, TOKEN), str | Rejection)

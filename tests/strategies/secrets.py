"""Secret values of every shape, and texts that hold them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

AWKWARD = [
    "s",
    "hunter2",
    "hunter2-and-more",
    "2-and-more-after",
    "sk-proj-0123456789abcdef",
    'quote"inside',
    "apostrophe'inside",
    "both\"of'them",
    "back\\slash\\n",
    "two\nlines\nof secret text",
    "tab\tand\x1bescape\x00",
    "pässwörd-日本-🔑",
    "\u2028separators\x85",
    "per%cent/slash+plus a b&c=d",
    "  padded with spaces \n",
    "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSj\n-----END KEY-----\n",
]

# Two letters: overlaps, repetitions and containment turn up in every example.
tiny_secrets = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4)
awkward_secrets = st.lists(st.sampled_from(AWKWARD) | st.text(min_size=1, max_size=12), min_size=1, max_size=4)


def cut(text: str, places: list[int]) -> list[str]:
    """`text` in chunks, cut at `places` modulo its length."""
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]


places = st.lists(st.integers(0, 10_000), max_size=12)

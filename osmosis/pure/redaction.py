"""Replace secrets in what is printed or logged by `[REDACTED]` (E8, E9, ruling 13).

The rule, for whole texts and for streams alike: find every occurrence of every form of every secret, overlapping ones
included; unite occurrences that overlap; replace each union by one marker. So the longest value wins, and no remnant of a
secret that overlaps another survives. Occurrences inside a marker that is already in the text are left alone: a text may pass
several redactions without growing, even if `E` is a secret.

Many forms are looked for at once by an Aho-Corasick automaton where `ahocorasick_rs` is installed, as the extra `eval` does.
Elsewhere, and for text that is not Unicode (lone surrogates), search is one `str.find` a form. Both find the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from osmosis.pure.secret_forms import forms

try:
    import ahocorasick_rs

    _AhoCorasick: Any = ahocorasick_rs.AhoCorasick
except ImportError:  # a rollout's own environment does without
    _AhoCorasick = None

MARKER = "[REDACTED]"

_HEAD = 8

_AUTOMATON_FROM = 8
"""How many forms make the foreign call worth its while."""

Span = tuple[int, int]


class Redactor:
    """Redacts a fixed set of secret values, in all their forms. Immutable; empty values are ignored.

    The values cannot be seen in its `repr`.
    """

    __slots__ = ("_automaton", "_heads", "_longest", "_patterns", "_short_prefixes", "_values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(value for value in values if value)
        found = sorted({form for value in self._values for form in forms(value)})
        self._automaton = _automaton(found)
        self._patterns = tuple((pattern, pattern[-smallest_period(pattern) :]) for pattern in found)
        # A stream must not cut a marker in two either, so its beginnings are held back like those of a secret.
        openings = [*found, MARKER] if found else []
        self._longest = max(map(len, openings), default=0)
        self._short_prefixes = frozenset(text[:length] for text in openings for length in range(1, min(len(text), _HEAD)))
        self._heads: dict[str, list[str]] = {}
        for text in openings:
            if len(text) > _HEAD:
                self._heads.setdefault(text[:_HEAD], []).append(text)

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"

    def including(self, values: Iterable[str]) -> Redactor:
        """A redactor of these values as well."""
        return Redactor(self._values.union(values))

    def text(self, text: str) -> str:
        """`text` with every secret replaced. Text without a secret comes back unchanged."""
        return self.stream().finish(text) if self.concerns(text) else text

    def concerns(self, text: str) -> bool:
        """Whether a secret stands in `text`, be it inside a marker."""
        return bool(self._found(text))

    def json_value(self, value: Any) -> Any:
        """A decoded JSON value with every string value redacted. Keys, numbers and structure stay (ruling 13)."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.json_value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.json_value(item) for item in value]
        return value

    def stream(self) -> StreamRedactor:
        """A redactor for text that arrives in chunks."""
        return StreamRedactor(self)

    def spans(self, text: str, in_marker: int = 0) -> list[Span]:
        """The united (start, end) spans of secrets, in order. The first `in_marker` characters are the end of a marker."""
        markers = list(occurrences(text, MARKER, MARKER))
        if in_marker:
            markers.insert(0, in_marker - len(MARKER))
        return united(span for span in self._found(text) if not _inside_marker(span, markers))

    def _found(self, text: str) -> list[Span]:
        """Every occurrence of every form, in any order."""
        if self._automaton is not None:
            try:
                matches = self._automaton.find_matches_as_indexes(text, overlapping=True)
            except UnicodeEncodeError:
                pass
            else:
                return [(start, end) for _, start, end in matches]
        return [(start, start + len(pattern)) for pattern, tail in self._patterns for start in occurrences(text, pattern, tail)]

    def undecided(self, text: str) -> int:
        """The position from which on `text` may be the beginning of a secret, or of a marker, that goes on in what follows."""
        size = len(text)
        earliest = size
        for head, openings in self._heads.items():
            position = text.find(head, max(0, size - self._longest + 1))
            while 0 <= position < earliest:
                rest = text[position:]
                if any(len(opening) > len(rest) and opening.startswith(rest) for opening in openings):
                    earliest = position
                    break
                position = text.find(head, position + 1)
        for position in range(max(0, size - _HEAD + 1), earliest):
            if text[position:] in self._short_prefixes:
                return position
        return earliest


def _automaton(found: list[str]) -> Any:
    """The automaton for these forms; None where a search for each is as quick, or the automaton cannot spell one."""
    if _AhoCorasick is None or len(found) < _AUTOMATON_FROM:
        return None
    try:
        return _AhoCorasick(found)
    except UnicodeEncodeError:
        return None


class StreamRedactor:
    """Redacts a text that arrives in chunks: the pieces it gives back, put together, are the redacted whole.

    It holds back only what may be the beginning of a secret. Not to be shared between threads.
    """

    __slots__ = ("_covered", "_held", "_in_marker", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        # The first characters of what is held may belong to a secret whose marker is already out, or to a marker of the input.
        self._covered = 0
        self._in_marker = 0

    def feed(self, chunk: str) -> str:
        """Take the next chunk; give back what is certain by now."""
        text = self._held + chunk
        return self._advance(text, self._redactor.undecided(text))

    def finish(self, chunk: str = "") -> str:
        """Take the last chunk, if any, and give back all the rest. The stream is then as new."""
        text = self._held + chunk
        return self._advance(text, len(text))

    def _advance(self, text: str, limit: int) -> str:
        pieces: list[str] = []
        reach = self._covered
        for start, end in self._redactor.spans(text, self._in_marker):
            if start >= reach:
                if start >= limit:
                    break
                pieces += (text[reach:start], MARKER)
            reach = max(reach, end)
        pieces.append(text[reach:limit])
        self._held = text[limit:]
        self._covered = max(0, reach - limit)
        self._in_marker = _marker_beyond(text, limit, self._in_marker)
        return "".join(pieces)


def smallest_period(pattern: str) -> int:
    """The least shift at which `pattern` overlaps itself; its length if it does not (Knuth, Morris and Pratt 1977)."""
    borders = [0]
    border = 0
    for character in pattern[1:]:
        while border and pattern[border] != character:
            border = borders[border - 1]
        border += pattern[border] == character
        borders.append(border)
    return len(pattern) - border


def occurrences(text: str, pattern: str, tail: str) -> Iterator[int]:
    """The start of each occurrence, overlapping ones included. `tail` is the last `smallest_period` characters of `pattern`.

    A run of overlapping occurrences is followed period by period, since searching for each anew would take quadratic time.
    """
    start = text.find(pattern)
    while start >= 0:
        yield start
        while text.startswith(tail, start + len(pattern)):
            start += len(tail)
            yield start
        start = text.find(pattern, start + 1)


def united(spans: Iterable[Span]) -> list[Span]:
    """Sorted spans with overlapping ones made one. Spans that only touch stay apart."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def _inside_marker(span: Span, markers: list[int]) -> bool:
    """Whether the last of the (sorted) marker positions at or before the span holds all of it."""
    index = bisect_right(markers, span[0])
    return index > 0 and span[1] <= markers[index - 1] + len(MARKER)


def _marker_beyond(text: str, limit: int, in_marker: int) -> int:
    """How many characters after `limit` belong to a marker that begins before it."""
    start = text.rfind(MARKER, 0, limit + len(MARKER) - 1)
    end = start + len(MARKER) if start >= 0 else in_marker
    return max(0, end - limit)

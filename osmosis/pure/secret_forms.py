"""Which values are secret, and every spelling under which one may reach a screen or a file (E8, E9, issues 3 and 4).

A secret seldom travels as it is: a traceback quotes it, a JSON log escapes it, a URL percent-encodes it, an `Authorization:
Basic` header holds it in base64, and one escaped text often ends up inside another. `forms` lists the spellings; matching them
is the business of `osmosis.pure.redaction`.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote, quote_plus

from osmosis.pure.canonical import well_formed

KNOWN_VARIABLES = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "XAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "CEREBRAS_API_KEY",
    "AZURE_API_KEY",
    "TOGETHER_API_KEY",
    "FIREWORKS_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "COHERE_API_KEY",
    "DEEPSEEK_API_KEY",
    "HUGGINGFACE_API_KEY",
    "HF_TOKEN",
    "WANDB_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "OSMOSIS_TOKEN",
    "OSMOSIS_API_KEY",
    "DAYTONA_API_KEY",
    "CURSOR_API_KEY",
    "MSWEA_API_KEY",
)
"""Provider and platform variables whose values are secret wherever they come from (`eval_local.md` section 9)."""

AMBIENT_MINIMUM = 8
"""Characters from which on the value of a known variable counts (E8). Shorter ones are test values such as `none`."""

_BASE64_MINIMUM = 4
_EMBEDDED_BASE64_MINIMUM = 8
_LINE_MINIMUM = 8
_HEXADECIMAL_MINIMUM = 4
_PERCENT_ESCAPE = re.compile("%[0-9A-F]{2}")


def secret_values(configured: Iterable[str], environment: Mapping[str, str] = {}, other: Iterable[str] = ()) -> frozenset[str]:
    """The values to redact.

    `configured` (the `[secrets]` of the config, and tokens that the product made itself) count from one character on. Those
    of `KNOWN_VARIABLES` in `environment`, and `other` values that came with the secrets, count from `AMBIENT_MINIMUM`
    characters on, surrounding white space aside.
    """
    ambient = [environment[name] for name in KNOWN_VARIABLES if name in environment]
    return frozenset(value for value in configured if value) | frozenset(
        value for value in (*ambient, *other) if len(value.strip()) >= AMBIENT_MINIMUM
    )


def forms(value: str) -> frozenset[str]:
    """Every spelling of `value` that is looked for; never the empty string.

    The value itself, stripped, with CRLF line ends, and each of its longer lines alone; each of these JSON-escaped and
    Python-quoted, up to twice over (JSON inside JSON, a quoted JSON text); the whole escaped for HTML, percent-encoded, in
    hexadecimal, and in base64, alone or inside a longer text. In base64 inside a longer text, the characters that share bits
    with a neighbour cannot be told.
    """
    spellings = {value, value.strip(), value.replace("\n", "\r\n"), well_formed(value)} - {""}
    escaped = spellings | {line for line in map(str.strip, value.split("\n")) if len(line) >= _LINE_MINIMUM}
    for _ in range(2):
        escaped |= {escape(text) for text in escaped for escape in _ESCAPES}
    encoded = {form for text in spellings for form in _encodings(text)}
    return frozenset(escaped | encoded) - {""}


def _json_ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _json_raw(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _json_with_slashes(text: str) -> str:
    return _json_ascii(text).replace("/", "\\/")


def _python_in_single_quotes(text: str) -> str:
    # With both kinds of quotes inside, repr chooses single quotes and escapes them; the added ones make it choose.
    return repr(text + "'\"")[1:-4]


def _python_with_bare_quotes(text: str) -> str:
    return "'".join(map(_python_in_single_quotes, text.split("'")))


def _python_ascii(text: str) -> str:
    return ascii(text)[1:-1]


def _python_bytes(text: str) -> str:
    return repr(text.encode("utf-8", "surrogatepass"))[2:-1]


_ESCAPES: tuple[Callable[[str], str], ...] = (
    _json_ascii,
    _json_raw,
    _json_with_slashes,
    _python_in_single_quotes,
    _python_with_bare_quotes,
    _python_ascii,
    _python_bytes,
)


def _encodings(text: str) -> Iterable[str]:
    yield html.escape(text)
    yield html.escape(text, quote=False)
    yield from _hexadecimal_forms(text)
    yield from _percent_forms(text)
    yield from _base64_forms(text)


def _hexadecimal_forms(text: str) -> Iterable[str]:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) >= _HEXADECIMAL_MINIMUM:
        yield data.hex()
        yield data.hex().upper()


def _percent_forms(text: str) -> Iterable[str]:
    """RFC 3986 with and without `/`, and the form encoding of spaces, with hexadecimal digits in either case."""
    data = text.encode("utf-8", "surrogatepass")
    for encoded in (quote(data, safe=""), quote(data, safe="/"), quote_plus(data)):
        if encoded.strip("+"):  # white space alone would make every plus sign a secret
            yield encoded
            yield _PERCENT_ESCAPE.sub(lambda found: found[0].lower(), encoded)


def _base64_forms(text: str) -> Iterable[str]:
    data = text.encode("utf-8", "surrogatepass")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        if len(data) >= _BASE64_MINIMUM:
            yield encode(data).decode()
            yield encode(data).decode().rstrip("=")
        if len(data) >= _EMBEDDED_BASE64_MINIMUM:
            for before in range(3):
                # Of the characters, keep those whose six bits all come from the value.
                whole = encode(bytes(before) + data).decode()
                yield whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]

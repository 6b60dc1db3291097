"""The one skeleton of every HTML document that we write: self-contained, under a strict content-security policy (issue 9).

Nothing is loaded from anywhere. The only style sheet and the only script that a browser accepts are those whose SHA-256 digests
the policy names (CSP level 3), so nothing that slipped into the page could run, and the page's own script cannot make
markup out of text (Trusted Types).
"""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from osmosis.pure.canonical import well_formed
from osmosis.pure.presentation import neutralise


def document(title: str, style: str, body: Iterable[str], script: str = "") -> Iterator[bytes]:
    """The page in pieces. `style` and `script` are trusted text of ours; `title` is anybody's; `body` is finished markup."""
    yield well_formed(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    ).encode()
    yield from (well_formed(part).encode() for part in body)
    if script:
        yield f"<script>{script}</script>\n".encode()
    yield b"</body>\n</html>\n"


def _policy(style: str, script: str) -> str:
    scripts = f"script-src {_digest(script)}; trusted-types 'none'; require-trusted-types-for 'script'; " if script else ""
    return f"default-src 'none'; style-src {_digest(style)}; {scripts}base-uri 'none'; form-action 'none'"


def _digest(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def text(value: str) -> str:
    """`value` as text of a page, also between the quotes of an attribute; steering characters become visible."""
    return html.escape(neutralise(value), quote=True)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of plain texts."""
    yield "<table>"
    yield "<thead><tr>" + "".join(f'<th scope="col">{text(name)}</th>' for name in header) + "</tr></thead>\n<tbody>"
    yield from ("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    yield "</tbody></table>"


def data_block(identity: str, kind: str, content: str) -> str:
    """Data that a browser keeps and never runs: a script element of a type that is none of a script's.

    `content` is JSON or base64. No `<` is left in it, so that it cannot end the element.
    """
    safe = content.replace("<", "\\u003c")
    return f'<script type="{kind}" id="{identity}">{safe}</script>\n'

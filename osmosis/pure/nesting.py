"""How deeply JSON from elsewhere may nest, so that no later walk over it can run out of stack.

Real requests and answers stay below 30 levels, tool schemas included. Decoders give up at a depth that depends on the caller's
own stack; a fixed limit makes the answer the same every time.
"""

from __future__ import annotations

from typing import Any

from osmosis.pure.canonical import decode_json

DEPTH_LIMIT = 128


def decode_shallow(data: bytes) -> Any:
    """Strict JSON of at most DEPTH_LIMIT levels. Raises ValueError (DuplicateKeyError among them), never RecursionError."""
    try:
        value = decode_json(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    # Brackets inside strings can only add to the count, so few of them prove a shallow value.
    if data.count(b"[") + data.count(b"{") > DEPTH_LIMIT and not is_shallow(value):
        raise ValueError("nested too deeply")
    return value


def is_shallow(value: Any) -> bool:
    """Whether a decoded JSON value has at most DEPTH_LIMIT levels."""
    level = [value]
    for _ in range(DEPTH_LIMIT + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return True
        level = below
    return False

"""The one way to compare bytes with a golden file, so that one command regenerates them all (`just golden`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, bytes], None]:
    """`golden("journal/result.jsonl", data)` asserts that `data` is, byte for byte, that file below `tests/golden/`."""
    rewrite = request.config.getoption("--write-golden")

    def compare(name: str, data: bytes) -> None:
        path = GOLDEN / name
        if rewrite:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        assert path.exists(), f"tests/golden/{name} is missing; look at the bytes, then run `just golden`"
        assert data == path.read_bytes(), f"the bytes of tests/golden/{name} have changed"

    return compare

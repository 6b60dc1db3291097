"""The Python of the documents runs: each page's blocks in order, in one namespace (design, section 4)."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from osmosis_ai.testing import FakeModelServer, judge_reply

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("rewards.md", "remote-rollout.md", "python.md", "rollouts.md")

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    """Whatever a page shows works as it stands, its assertions included; a fake model answers where one is asked."""
    blocks = _BLOCK.findall((DOCS / page).read_text())
    assert blocks
    program = tmp_path / f"{Path(page).stem.replace('-', '_')}.py"
    program.write_text("\n".join(blocks))
    with FakeModelServer(judge_reply(0.5)) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        runpy.run_path(str(program), run_name="document")

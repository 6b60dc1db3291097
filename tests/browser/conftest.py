"""A headless Chromium for the tests of pages. It is offline, has a new empty profile, and records whatever goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from scripts.browser_env import browser

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


PATIENCE_MS = 180_000
"""Milliseconds after which a browser on a slow machine has failed to start, to load a page or to do what it was asked for."""


@dataclass
class Tab:
    """A page of the browser and everything that it complained of or asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, path: Path) -> Page:
        """Load a file from disk."""
        self.page.goto(path.as_uri())
        return self.page


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    """One tab of a browser of its own."""
    executable = browser()
    assert executable, "No Chromium was found: run `python scripts/browser_env.py`."
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "profile",
            executable_path=executable,
            headless=True,
            args=FLAGS,
            offline=True,
            viewport={"width": 1280, "height": 900},
            timeout=PATIENCE_MS,
        )
        context.set_default_timeout(PATIENCE_MS)
        tab = Tab(context.pages[0] if context.pages else context.new_page())
        tab.page.on("console", lambda message: tab.complaints.append(message.text))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on("request", lambda request: tab.requests.append(request.url))
        yield tab
        context.close()

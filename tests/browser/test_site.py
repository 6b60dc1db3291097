"""The documentation site builds without a warning, and works from a disk, offline, by keyboard, narrow and wide (issue 9)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from scripts import build_site
from tests.browser.conftest import Tab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> str:
    """Run a script of the project; what it said. Fails the test with its words."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


@pytest.fixture(scope="session")
def generator() -> None:
    """The generator's environment. Several test processes may want it at once, so making it is locked."""
    with FileLock(ROOT / ".venv-docs.lock"):
        run("scripts/docs_env.py")


@pytest.fixture(scope="session")
def site(generator: None, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The built site, once for all test processes of a session."""
    place = tmp_path_factory.getbasetemp()
    shared = (place if worker_id == "master" else place.parent) / "site"
    with FileLock(f"{shared}.lock"):
        if not (shared / "index.html").exists():
            assert run("-m", "scripts.build_site", str(shared)) == ""
    return shared


SOUND = {
    "conf.py": (ROOT / "docs" / "conf.py").read_text(),
    "style.css": "",
    "index.md": "# A\n\n- [b](b.md)\n",
    "b.md": "# B\n",
}
MENU = "```{toctree}\n:hidden:\n\nb\n```\n"


@pytest.mark.parametrize(
    ("spoilt", "what"),
    [
        ({}, ""),
        ({"b.md": "# B\n\n[nowhere](c.md)\n"}, "cross-reference target not found"),
        ({"b.md": "# B\n\n[nowhere](index.md#gone)\n"}, "local id not found"),
        ({"b.md": "# B\n\n![gone](gone.png)\n"}, "image file not readable"),
        ({"c.md": "# C\n"}, "isn't included in any toctree"),
    ],
    ids=["sound", "dead link", "missing anchor", "missing picture", "page without a menu"],
)
def test_a_fault_in_a_page_fails_the_build(
    generator: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], spoilt: dict[str, str], what: str
) -> None:
    """Sound pages are drawn; a dead link, a missing anchor or picture, and a page that no menu leads to are errors."""
    source = tmp_path / "source"
    source.mkdir()
    for name, text in (SOUND | {"index.md": SOUND["index.md"] + MENU} | spoilt).items():
        (source / name).write_text(text)
    assert (build_site.draw(source, tmp_path / "site") == 0) == (not spoilt)
    assert what in capfd.readouterr().err


def pages(site: Path) -> list[Path]:
    """Every page for readers."""
    return sorted(site.rglob("*.html"))


def test_every_page_is_quiet_and_alone(site: Path, tab: Tab) -> None:
    """No page complains or asks for anything but files of the site, and none is wider than a phone or a desk."""
    wide = []
    for path in pages(site):
        page = tab.open(path)
        for width in (400, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append((path.name, width))
    assert tab.complaints == []
    assert {url for url in tab.requests if not url.startswith(site.as_uri())} == set()
    assert wide == []
    assert len(pages(site)) > 60


def test_what_is_linked_from_elsewhere_is_only_linked(site: Path) -> None:
    """No page embeds anything from another place: scripts, styles, pictures and fonts all lie beside it."""
    embedded = re.compile(r"""(?:src|srcset)=["']?(?:https?:)?//|<link[^>]*href=["'](?:https?:)?//|url\(["']?(?:https?:)?//""")
    assert [
        path.name for path in site.rglob("*.*") if path.suffix in (".html", ".css") and embedded.search(path.read_text())
    ] == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("wilson", "statistics.html"),
        ("open_run", "python/osmosis.html"),
        ("retry-failed", "commands.html"),
        ("AgentWorkflow", "python/osmosis_ai.rollout.html"),
        ("exit codes", "exit-codes.html"),
    ],
)
def test_search_works_from_a_disk(site: Path, tab: Tab, words: str, found: str) -> None:
    """Words typed into the search field of any page lead to the page that holds them, with no server."""
    page = tab.open(site / "tutorial.html")
    page.fill("input[name=q]", words)
    page.keyboard.press("Enter")
    hit = page.locator(f'#search-results li a[href*="{found}"]').first
    hit.click()
    page.wait_for_url(lambda url: found in url)
    assert page.locator("h1").count() == 1
    assert tab.complaints == []


def test_the_keyboard_reaches_everything(site: Path, tab: Tab) -> None:
    """The first stop skips to the content; search, menu and the switch of colours can be reached and used without a mouse."""
    page = tab.open(site / "index.html")
    stops = []
    for _ in range(40):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("(document.activeElement.innerText || document.activeElement.name || '').trim()"))
    assert stops[0] == "Skip to content"
    assert "q" in stops
    assert {"Your first evaluation", "Changelog"} <= set(stops)
    switch = page.locator("button.theme-toggle:visible").first
    switch.focus()
    before = page.evaluate("document.body.dataset.theme")
    page.keyboard.press("Enter")
    assert page.evaluate("document.body.dataset.theme") != before


ON_SCREEN = """
() => {
  const place = document.activeElement.getBoundingClientRect();
  return place.left >= 0 && place.right <= innerWidth;
}
"""


def test_what_has_the_focus_can_be_seen_on_a_phone(site: Path, tab: Tab) -> None:
    """On a narrow window the menus lie outside; they come in when the keyboard reaches them."""
    tab.page.set_viewport_size({"width": 400, "height": 900})
    page = tab.open(site / "tutorial.html")
    stops = []
    for _ in range(30):
        page.keyboard.press("Tab")
        page.wait_for_function(ON_SCREEN)
        stops.append(page.evaluate("(document.activeElement.innerText || '').trim()"))
    assert {"From the public package", "Changelog"} <= set(stops)


CONTRAST = """
() => {
  const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = numbers(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const seen = [...document.querySelectorAll(
    'article p, article a, article code, article td, article .highlight span, .sidebar-tree a, .toc-tree a')]
    .filter((element) => element.innerText && element.offsetParent);
  return Math.min(...seen.map((element) => {
    const [a, b] = [light(numbers(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  }));
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["statistics.html", "tutorial.html", "python/osmosis.html"])
def test_text_can_be_read(site: Path, tab: Tab, name: str, scheme: str) -> None:
    """The reader's colour scheme is followed, and text stands out in each by at least 4.5 to 1 (WCAG 2, AA)."""
    tab.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page = tab.open(site / name)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    shade = max(int(number) for number in re.findall(r"\d+", background)[:3])
    assert (shade < 60) == (scheme == "dark")
    assert page.evaluate(CONTRAST) >= 4.5

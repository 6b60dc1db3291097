"""Make the documents' pictures from a real run of the demo: the live view half way through, and the report at the end.

    python -m scripts.make_pictures [DIRECTORY]        (docs/pictures/ unless said otherwise)

`just pictures` runs it. The demo replays its recorded model calls, so no key and no network is needed; Chromium photographs the
report (`scripts/browser_env.py` installs it). The run is called `demo`, as `just demo --name demo` would make it, and removed
again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyte
from playwright.sync_api import sync_playwright

from scripts.browser_env import browser
from scripts.terminal_picture import drawn, film

ROOT = Path(__file__).resolve().parent.parent
WORKSPACE = ROOT / "examples" / "workspace"
OSMOSIS = str(Path(sys.executable).with_name("osmosis"))
TYPED = ("eval", "run", "configs/eval/word-problems.toml", "--dataset-file", "data/word-problems.jsonl")
RUN = WORKSPACE / ".osmosis" / "evals" / "demo"
REPLAYED = ("--replay", "cassettes/word-problems.jsonl", "--yes", "--name", RUN.name)
HALF_WAY = 0.55
REPORT_SIZE = (1200, 1860)


def half_way(screen: pyte.Screen) -> bool:
    """Whether the bar of the live view has come past the middle, with what always stands below it."""
    shown = "\n".join(screen.display)
    bar = re.search(r"rollouts .* ([\d,]+)/([\d,]+)", shown)
    if bar is None or "in flight" not in shown:
        return False
    done, total = (int(number.replace(",", "")) for number in bar.groups())
    return done >= HALF_WAY * total


def live_view() -> str:
    """The live view of the demo as an SVG. The finished run is left behind."""
    return drawn(film([OSMOSIS, *TYPED, *REPLAYED], half_way, directory=WORKSPACE), "osmosis eval run", "osmosis-live-view")


def report(target: Path) -> None:
    """Write the report of the run, and photograph its beginning."""
    subprocess.run([OSMOSIS, "eval", "report", RUN.name, "--plain"], cwd=WORKSPACE, check=True, stdout=subprocess.DEVNULL)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        chromium = playwright.chromium.launch(executable_path=browser(), headless=True, args=flags)
        width, height = REPORT_SIZE
        page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        page.goto((RUN / "report.html").as_uri())
        page.screenshot(path=target)
        chromium.close()


def main(arguments: list[str]) -> int:
    """Command line: see the module docstring."""
    target = Path(arguments[0]) if arguments else ROOT / "docs" / "pictures"
    if browser() is None:
        print("make_pictures: no Chromium was found; run `python scripts/browser_env.py` first", file=sys.stderr)
        return 1
    target.mkdir(parents=True, exist_ok=True)
    if RUN.exists():
        print("make_pictures: the example workspace has a run called demo; give it another name first", file=sys.stderr)
        return 1
    try:
        (target / "live-view.svg").write_text(live_view(), encoding="utf-8")
        report(target / "report.png")
    finally:
        shutil.rmtree(RUN, ignore_errors=True)
    for name in ("live-view.svg", "report.png"):
        print(f"{target / name}: {(target / name).stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

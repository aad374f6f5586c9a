"""Pictures of the page of a server that runs, each to be looked at: light and dark, wide and narrow, empty and refused.

docs/page.png is page-light.png.

.venv/bin/tfm serve --run RUN &
.venv/bin/python scripts/screenshots.py http://127.0.0.1:5000 pictures "Ein Mann mit einem Hut sitzt im Park."
"""

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

WINDOWS = {  # name → width, height, colours
    "light": (1080, 800, "light"),
    "dark": (1080, 800, "dark"),
    "narrow": (390, 844, "light"),
    "narrow-dark": (390, 844, "dark"),
}


def main() -> None:
    """Write the PNGs into a folder."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("url")
    options.add_argument("folder", type=Path)
    options.add_argument("sentence")
    options.add_argument(
        "--word", type=int, default=2, help="the word of the translation that is looked at (default: 2)"
    )
    given = options.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in WINDOWS:
            _draw(browser, name, given.folder, given.url, given.sentence, given.word)
        browser.close()


def _draw(browser: Browser, name: str, folder: Path, url: str, sentence: str, word: int) -> None:
    width, height, colours = WINDOWS[name]
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme="dark" if colours == "dark" else "light"
    )
    page.goto(url)
    page.wait_for_selector("#examples button")
    _take(page, folder / f"page-{name}-empty.png")
    page.fill("#input", sentence)
    page.click(f"#target .word:nth-child({word})")
    for details, inside in (("#maps", "#map canvas"), ("#vectors", "#planes svg")):
        page.evaluate(f"document.querySelector('{details}').open = true")
        page.wait_for_selector(inside)
    page.mouse.move(0, 0)
    _take(page, folder / f"page-{name}.png")
    page.fill("#input", sentence * 200)
    page.wait_for_selector("#error:not([hidden])")
    _take(page, folder / f"page-{name}-refused.png")
    page.close()


def _take(page: Page, path: Path) -> None:
    taken = Image.open(io.BytesIO(page.screenshot(full_page=True, animations="disabled"))).convert("RGB")
    few = taken.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
    few.save(path, optimize=True)  # a third of the size; no colour is off by more than a few of 255 levels
    print(path)


if __name__ == "__main__":
    main()

"""The system's Chromium, driven by playwright."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.programs import required

_ARGUMENTS: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
AXE: Final = Path(__file__).parent / "vendor" / "axe.min.js"


def chromium() -> str:
    """Return the path of Chromium; skip the test without one, and fail it if CI is set."""
    words = "no Chromium was found: run tools/ensure_chromium.sh, or set LRQ_TEST_CHROMIUM to the path of one"
    return required("LRQ_TEST_CHROMIUM", "chromium", "chromium-browser", "google-chrome", words=words)


@contextmanager
def started() -> Iterator[Browser]:
    """Start Chromium without a screen."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def violations(page: Page) -> list[str]:
    """Return the rule and the elements of each violation that axe finds on the page."""
    # The page's own policy forbids foreign scripts; the driver adds this one from outside.
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
    return [f"{each['id']}: {[node['html'][:120] for node in each['nodes'][:3]]}" for each in found]

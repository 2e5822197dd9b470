"""Make the pictures of Replays for `docs/console.md`: `python -m tests.lrq.console.pictures`, with Chromium.

Tokyo has applied entries of Paris again. Paris waits for the answer to an order, and Lima has none.
"""

from pathlib import Path

from playwright.sync_api import Browser

from lr_client import request_replay, wait_replay
from lrq import console
from lrq.testing import pair
from tests.lrq.console import browser
from tests.lrq.console.served import served
from tests.lrq.console.world import Careful
from tests.sink.applied import apply_five
from tests.waiting import eventually

IMAGES = Path(__file__).parents[3] / "docs" / "images"
DESK = {"width": 1200, "height": 760}
#: The files with the colour scheme of each.
FILES = {"console-replays.png": "light", "console-replays-dark.png": "dark"}


class Undoing(Careful):
    """Applies everything, and can undo."""

    def on_rollback(self, session, source_id, position) -> None:
        return


def take(chrome: Browser, url: str) -> None:
    """Write each file."""
    for name, scheme in FILES.items():
        context = chrome.new_context(viewport=DESK, color_scheme=scheme)
        page = context.new_page()
        page.goto(f"{url}/replays")
        page.screenshot(path=IMAGES / name)
        context.close()
        print(name)


def main() -> None:
    """Run three sites with orders, and take the pictures."""
    with pair("paris", "tokyo", "lima", segment_seconds=3_600.0) as (paris, tokyo, lima), browser.started() as chrome:
        tokyo.subscribe(Undoing())
        for number in range(1, 6):
            token = paris.send("policy", f"rule {number}".encode(), "tokyo", "lima")
            tokyo.wait_applied(token)
        wait_replay(tokyo.engine, request_replay(tokyo.engine, "policy", "paris", start=3, person="ann"), timeout=60)
        tokyo.wait_applied(token)
        apply_five(paris.engine)
        request_replay(paris.engine, "policy", "tokyo", start=4, undo=False, person="ann")
        engines = {each.site_id: each.engine for each in (paris, tokyo, lima)}
        application = console.app(engines, allow_actions=True)
        with served(application) as url:
            eventually(lambda: all(view.status for view in application.state.console.views()))
            take(chrome, url)


if __name__ == "__main__":
    main()

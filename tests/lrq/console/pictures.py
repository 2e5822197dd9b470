"""Make all pictures of `docs/console.md`: `python -m tests.lrq.console.pictures`, with Chromium.

Tokyo has parked transactions and has applied entries of Paris again. Paris waits for the answer to an order. Lima has
no subscriber, and its session lags. Only the hour of samples in the plot is made up.
"""

import math
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import gettempdir
from typing import Final, NamedTuple

from playwright.sync_api import Browser
from sqlalchemy import Engine
from starlette.applications import Starlette

import queues
from lr_client import RoutingQueueListener, request_replay, wait_replay
from lrq import console
from lrq.console.samples import STEP, Sample
from lrq.testing import LocalSite, pair
from queues.clock import now_us
from queues.receive.parked import parked
from tests.lrq.console import browser
from tests.lrq.console.reading_aids import PHONE
from tests.lrq.console.served import served
from tests.sink.applied import apply_five
from tests.system.ring_servers import RANKS, RingServers
from tests.waiting import eventually

IMAGES: Final = Path(__file__).parents[3] / "docs" / "images"
DESK: Final = {"width": 1200, "height": 760}
LINK: Final = "/link?site=paris&client=policy&to=tokyo"


class Picture(NamedTuple):
    """A file in `docs/images`: a page in a colour scheme, on a desk or on a phone."""

    name: str
    path: str
    scheme: str = "light"
    size: dict[str, int] = DESK


OF_SITES: Final = (
    Picture("console-map", "/"),
    Picture("console-link-dark", LINK, "dark"),
    Picture("console-entries", "/entries?site=paris&all=1"),
    Picture("console-dead-letters", "/parked?site=tokyo"),
    Picture("console-replays", "/replays"),
    Picture("console-replays-dark", "/replays", "dark"),
    Picture("console-phone", "/", "dark", PHONE),
    Picture("console-phone-dead-letters", "/parked?site=tokyo", "light", PHONE),
)
OF_A_RING: Final = (Picture("console-ring", "/ring", size={"width": 1200, "height": 400}),)


class Shop(RoutingQueueListener):
    """Refuses the rules of an unknown office, and can undo."""

    client_name = "policy"

    def process_updates_in_snapshot_sync(self, session, source_id, entries) -> bool:
        return True

    def process_updates_in_log_entry_sync(self, session, source_id, entries) -> bool:
        if any(b"oslo" in entry.opaque_payload for entry in entries):
            raise LookupError("there is no office oslo")
        return True

    def on_rollback(self, session, source_id, position) -> None:
        return


def take(chrome: Browser, application: Starlette, pictures: Iterable[Picture], is_ready: Callable[[], object]) -> None:
    """Write each picture once the console has read its sites."""
    with served(application) as url:
        eventually(is_ready, timeout=120)
        for each in pictures:
            context = chrome.new_context(viewport=each.size, color_scheme=each.scheme)
            page = context.new_page()
            page.goto(url + each.path)
            page.screenshot(path=IMAGES / f"{each.name}.png")
            context.close()
            print(each.name)


def tell_the_story(paris: LocalSite, tokyo: LocalSite) -> None:
    """Send rules, have them applied again, have two others refused, and order a replay that waits."""
    tokyo.subscribe(Shop(), on_failure="park", max_tries=1)
    send(paris, tokyo, "rome", 1, 2, 3, 4)
    wait_replay(tokyo.engine, request_replay(tokyo.engine, "policy", "paris", start=3, person="ann"), timeout=60)
    send(paris, tokyo, "oslo", 5, 6)
    eventually(lambda: len(parked(tokyo.engine)) == 2)
    send(paris, tokyo, "lyon", 7)
    apply_five(paris.engine)
    request_replay(paris.engine, "policy", "tokyo", start=4, undo=False, person="ann")


def send(paris: LocalSite, tokyo: LocalSite, office: str, *numbers: int) -> None:
    """Send rules of an office, one by one, and wait until they are applied or parked."""
    for number in numbers:
        rule = f'{{"rule": {number}, "office": "{office}"}}'.encode()
        tokyo.wait_applied(paris.send("policy", rule, "tokyo", "lima", item_key=f"rule-{number}"))


def fill_the_hour(application: Starlette) -> None:
    """Put an hour of samples before those of the console: two short delays."""
    own = application.state.console
    samples = own.watch("paris").past.of("policy", "tokyo").samples
    kept, begin = list(samples), now_us() - 3_550 * 1_000_000
    samples.clear()
    for second in range(0, 3_540, int(STEP)):
        seconds = 6 * math.exp(-(((second - 1_500) / 120) ** 2)) + 2 * math.exp(-(((second - 2_900) / 60) ** 2))
        samples.append(Sample(begin + second * 1_000_000, seconds, round(seconds * 50)))
    samples.extend(kept)


def show_sites(chrome: Browser) -> None:
    """Take the pictures of three sites."""
    with pair("paris", "tokyo", "lima", segment_seconds=3_600.0) as (paris, tokyo, lima):
        tell_the_story(paris, tokyo)
        engines = {each.site_id: each.engine for each in (paris, tokyo, lima)}
        application = console.app(engines, allow_actions=True)
        own = application.state.console

        def is_ready() -> bool:
            # Two readings give rates, and the second one knows the applied entries.
            found = [each for each in own.links() if each.session.destination == "tokyo"]
            read = all(view.status for view in own.views())
            return read and any(each.rate is not None and not each.session.applied_lag.entries for each in found)

        def is_filled() -> bool:
            if is_ready():
                fill_the_hour(application)
                return True
            return False

        take(chrome, application, OF_SITES, is_filled)


def show_ring(chrome: Browser) -> None:
    """Take the picture of a ring of three members."""
    # The page shows the paths of the sockets, so the folder has a plain name.
    folder = Path(gettempdir()) / "lrq-ring"
    folder.mkdir()
    try:

        def new_site(name: str) -> Engine:
            engine = queues.create_engine(f"sqlite:///{folder}/{len(list(folder.glob('*.db')))}.db")
            queues.initialize(engine, site_id=name)
            return engine

        ring = RingServers(new_site, folder)
        ring.begin(*RANKS)
        try:
            application = console.app({"paris": ring.engines[1]}, rings={"paris": ring.settings[1]})
            rings = application.state.console.rings
            take(chrome, application, OF_A_RING, lambda: all(each.look().leader for each in rings))
        finally:
            ring.close()
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Take all pictures."""
    with browser.started() as chrome:
        show_sites(chrome)
        show_ring(chrome)


if __name__ == "__main__":
    main()

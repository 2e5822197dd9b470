"""The story: three sites, one that joins late, one that is killed, and what all of them hold in the end."""

import threading
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Final

from sqlalchemy import inspect

import queues
from lrq_cli.demo.airports import REGIONS, SOURCE, Base
from lrq_cli.demo.children import Children, DemonstrationError
from lrq_cli.demo.proof import prove
from lrq_cli.demo.report import Report, snapshots_applied
from lrq_cli.demo.screen import Screen
from lrq_cli.demo.sites import SITES, Places
from lrq_cli.demo.views import View
from lrq_cli.demo.watch import Watcher
from queues.clock import SYSTEM_CLOCK
from queues.errors import UsageError

#: Time between two looks, in seconds.
LOOK: Final = 0.25
#: How long any one thing may take before the demonstration gives up, in seconds.
PATIENCE: Final = 150.0
#: Entries that a site gets from the log before the next thing happens.
A_FEW: Final = 300


def prepare(places: Places) -> None:
    """Create the tables of lrq and of the application in the database of each site.

    Raises `UsageError` when one of them is not empty.
    """
    if len({places.database(site) for site in SITES}) < len(SITES):
        raise UsageError("the sites need a database each: write {site} in the URL, in place of the name of a site")
    for site in SITES:
        engine = queues.create_engine(places.database(site))
        if inspect(engine).get_table_names():
            raise UsageError(f"the database of {site} is not empty: give the demonstration new ones")
        queues.initialize(engine, site_id=site)
        Base.metadata.create_all(engine)
        engine.dispose()


class Story:
    """Tells it, on *screen*."""

    def __init__(self, children: Children, watcher: Watcher, screen: Screen) -> None:
        """Begin with databases that are prepared and processes that are not started."""
        self._children = children
        self._watcher = watcher
        self._screen = screen
        self._began = SYSTEM_CLOCK.monotonic()
        self._never = threading.Event()

    def tell(self) -> Report:
        """Play all of it; return what it has shown."""
        say, children = self._screen.say, self._children

        say("paris edits its airports, Spark starts, tokyo and lima join")
        for role in ("paris-spark", "paris-editor", "paris-server", "tokyo", "lima"):
            children.start(role)
        self._until("tokyo and lima to have their snapshots", _live("tokyo", "lima"))
        say("tokyo and lima: built by Spark, their snapshots are applied; the log goes on from the very cut")
        self._until("tokyo and lima to follow the log", _delivered(A_FEW, "tokyo", "lima"))

        children.kill("tokyo")
        killed_at = SYSTEM_CLOCK.monotonic()
        self._watcher.down("tokyo")
        say("tokyo: killed in the middle of its work (SIGKILL)")
        say("nairobi: joins late, while paris goes on editing")
        children.start("nairobi")
        self._until("nairobi to have its snapshot", _live("nairobi"))
        say("nairobi: its snapshot is applied, the log goes on")
        children.start("tokyo")
        self._watcher.up("tokyo")
        seconds_down = SYSTEM_CLOCK.monotonic() - killed_at
        say(f"tokyo: started again after {seconds_down:.0f} s")
        self._until("tokyo to catch up", _live("tokyo"))
        say("tokyo: has caught up")
        self._until("everybody to follow the log", _delivered(A_FEW, *REGIONS))

        say("paris: stops editing; what is on its way arrives")
        children.tell_to_end("paris-editor", "paris-spark")
        children.wait("paris-editor")
        end = self._until("everybody to have everything", _nobody_is_behind)
        say("comparing every row of every site with what it is owed")
        return self._conclude(end, {"tokyo": seconds_down})

    def _until(self, words: str, fact: Callable[[View], bool]) -> View:
        deadline = SYSTEM_CLOCK.monotonic() + PATIENCE
        while True:
            self._children.check()
            view = self._watcher.look()
            self._screen.show(view)
            if fact(view):
                return view
            if SYSTEM_CLOCK.monotonic() > deadline:
                raise DemonstrationError(f"waited {PATIENCE:.0f} s in vain for {words}: {self._reasons()}")
            SYSTEM_CLOCK.wait(self._never, LOOK)

    def _reasons(self) -> str:
        sessions = self._watcher.status(SOURCE)["sessions"]
        return "; ".join(f"{found['destination']}: {found['state']} ({found['reason']})" for found in sessions)

    def _conclude(self, end: View, seconds_down: Mapping[str, float]) -> Report:
        engines, status = self._watcher.engines, self._watcher.status
        at_source = status(SOURCE)
        return Report(
            seconds=SYSTEM_CLOCK.monotonic() - self._began,
            view=end,
            log_seq=at_source["log"]["seq"],
            proofs={site: prove(site, engines[SOURCE], engines[site], status(site)) for site in REGIONS},
            snapshots=snapshots_applied(at_source),
            spark_version=version("pyspark"),
            seconds_down=seconds_down,
        )


def _live(*sites: str) -> Callable[[View], bool]:
    return lambda view: all(view.sites[site].is_live for site in sites)


def _delivered(entries: int, *sites: str) -> Callable[[View], bool]:
    return lambda view: all(view.sites[site].delivered >= entries for site in sites)


def _nobody_is_behind(view: View) -> bool:
    return not any(site.behind or site.unacknowledged for site in view.sites.values())

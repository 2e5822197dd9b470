"""The story: Paris feeds three sites; one joins late, one is killed, and all are compared at the end."""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Final

from sqlalchemy import inspect

import queues
from lrq.demo.airports import REGIONS, SOURCE, Base
from lrq.demo.children import Children, DemonstrationError
from lrq.demo.proof import prove
from lrq.demo.report import StoryReport, snapshots_applied
from lrq.demo.screen import Screen
from lrq.demo.sites import SITES, Places
from lrq.demo.views import View
from lrq.demo.watch import Watcher
from queues.clock import SYSTEM_CLOCK, poll
from queues.errors import UsageError

#: Time between two readings of the sites, in seconds.
LOOK: Final = 0.25
#: Time limit for each step of the story, in seconds.
PATIENCE: Final = 300.0
#: Number of log entries that a site applies before the next step.
A_FEW: Final = 300


def prepare(places: Places) -> None:
    """Create the tables of lrq and of the application in the database of each site.

    Raises `UsageError` if a database is not empty, or two sites share one.
    """
    if len({places.database(site) for site in SITES}) < len(SITES):
        raise UsageError("each site needs its own database: write {site} in the URL, in place of the name of a site")
    for site in SITES:
        engine = queues.create_engine(places.database(site))
        if inspect(engine).get_table_names():
            raise UsageError(f"the database of {site} is not empty: give the demonstration empty databases")
        queues.initialize(engine, site_id=site)
        Base.metadata.create_all(engine)
        engine.dispose()


class Story:
    """Runs the steps of the story and reports them on *screen*."""

    def __init__(self, children: Children, watcher: Watcher, screen: Screen) -> None:
        """Take prepared databases and processes that are not started yet."""
        self._children = children
        self._watcher = watcher
        self._screen = screen
        self._began = SYSTEM_CLOCK.monotonic()

    def tell(self) -> StoryReport:
        """Run all steps; return the report."""
        say, children = self._screen.say, self._children

        say("paris edits its airports, Spark starts, tokyo and lima join")
        for role in ("paris-spark", "paris-editor", "paris-server", "tokyo", "lima"):
            children.start(role)
        self._until("tokyo and lima to have their snapshots", _live("tokyo", "lima"))
        say("tokyo and lima: their Spark snapshots are applied; the log continues from the cut")
        self._until("tokyo and lima to follow the log", _delivered("tokyo", "lima"))

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
        self._until("all sites to follow the log", _delivered(*REGIONS))

        say("paris: stops editing; the last entries arrive")
        children.tell_to_end("paris-editor", "paris-spark")
        children.wait("paris-editor")
        end = self._until("all sites to apply the last entry", _nobody_is_behind)
        say("comparing every row of every site with paris")
        return self._conclude(end, {"tokyo": seconds_down})

    def _until(self, words: str, fact: Callable[[View], bool]) -> View:
        def look() -> View:
            self._children.check()
            view = self._watcher.look()
            self._screen.show(view)
            return view

        view = poll(look, fact, timeout=PATIENCE, pause=LOOK)
        if not fact(view):
            raise DemonstrationError(f"waited {PATIENCE:.0f} s in vain for {words}: {self._reasons()}")
        return view

    def _reasons(self) -> str:
        sessions = self._watcher.status(SOURCE).sessions
        return "; ".join(f"{found.destination}: {found.state} ({found.reason})" for found in sessions)

    def _conclude(self, end: View, seconds_down: Mapping[str, float]) -> StoryReport:
        engines, status = self._watcher.engines, self._watcher.status
        at_source = status(SOURCE)
        return StoryReport(
            seconds=SYSTEM_CLOCK.monotonic() - self._began,
            view=end,
            log_seq=at_source.log.seq,
            proofs={site: prove(site, engines[SOURCE], engines[site], status(site).receive_queues) for site in REGIONS},
            snapshots=snapshots_applied(at_source),
            spark_version=version("pyspark"),
            seconds_down=seconds_down,
        )


def _live(*sites: str) -> Callable[[View], bool]:
    return lambda view: all(view.sites[site].is_live for site in sites)


def _delivered(*sites: str) -> Callable[[View], bool]:
    return lambda view: all(view.sites[site].delivered >= A_FEW for site in sites)


def _nobody_is_behind(view: View) -> bool:
    return not any(site.behind or site.unacknowledged for site in view.sites.values())

"""Watch the progress of all sites in their databases."""

from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.orm import Session

from discovery.session_status import SessionStatus
from discovery.site_status import SiteStatus
from discovery.status import read_status
from lrq.demo.airports import REGIONS, SOURCE, Airport
from lrq.demo.latency import Journeys, percentile
from lrq.demo.sites import SITES, Places
from lrq.demo.tally import Tally, TransactionTally
from lrq.demo.views import SiteView, View
from queues.clock import now_us
from queues.names import SiteId


class Watcher:
    """Reads the databases of all sites."""

    def __init__(self, places: Places) -> None:
        """Watch the sites of *places*, whose databases are prepared."""
        self.engines = {site: create_engine(places.database(site)) for site in SITES}
        self._followers = {site: _Follower(site, self.engines[site], places) for site in REGIONS}

    def look(self) -> View:
        """Read all sites and return their progress."""
        with Session(self.engines[SOURCE]) as session:
            airports = session.scalar(select(func.count()).select_from(Airport)) or 0
            transactions = session.scalar(select(TransactionTally))
            tallies = {tally.site: tally for tally in session.scalars(select(Tally))}
        if transactions is None:
            return View(sites={site: SiteView() for site in REGIONS})
        sessions = {session.destination: session for session in self.status(SOURCE).sessions}
        return View(
            airports=airports,
            entries=tallies[SOURCE].entries,
            bytes_stored=tallies[SOURCE].payload_bytes,
            bytes_as_copies=sum(tallies[site].payload_bytes for site in REGIONS),
            committed=transactions.committed,
            rolled_back=transactions.rolled_back,
            sites={
                site: follower.look(sessions.get(SiteId(site)), tallies[site].entries)
                for site, follower in self._followers.items()
            },
        )

    def status(self, site: str) -> SiteStatus:
        """Return the status of *site*."""
        return read_status(self.engines[site])

    def down(self, site: str) -> None:
        """Record that *site* is down."""
        self._followers[site].down()

    def up(self, site: str) -> None:
        """Record that *site* runs again; the site is live when it has caught up."""
        self._followers[site].is_up = True

    def close(self) -> None:
        """Close all databases and files."""
        for engine in self.engines.values():
            engine.dispose()
        for follower in self._followers.values():
            follower.journeys.close()


class _Follower:
    """One sink: live once it has applied all entries that the source had written at the reading before."""

    def __init__(self, site: str, engine: Engine, places: Places) -> None:
        self._site = site
        self._engine = engine
        self.journeys = Journeys(places.journeys(site))
        self.is_up = True
        self._live_since_us: int | None = None
        self._owed_before: int | None = None
        self._behind_most = 0
        self._latencies: list[float] = []

    def look(self, replication: SessionStatus | None, owed: int) -> SiteView:
        self._read_journeys()
        state = replication.state.value if replication else ""
        unacknowledged = replication.lag.entries if replication else 0
        with Session(self._engine) as session:
            airports = session.scalar(select(func.count()).select_from(Airport)) or 0
            tally = session.get(Tally, self._site)
        if tally is None:
            return SiteView(state, unacknowledged, airports, owed)
        if self._live_since_us is None and self._owed_before is not None and tally.entries >= self._owed_before:
            self._live_since_us = now_us()
        self._owed_before = owed if self.is_up else None
        self._behind_most = max(self._behind_most, owed - tally.entries)
        return SiteView(
            session=state,
            unacknowledged=unacknowledged,
            airports=airports,
            owed=owed,
            applied=tally.entries,
            delivered=tally.entries - tally.entries_at_cut,
            behind_most=self._behind_most,
            p50=percentile(self._latencies, 0.50),
            p99=percentile(self._latencies, 0.99),
            is_live=self._live_since_us is not None,
        )

    def down(self) -> None:
        self._read_journeys()
        self.is_up = False
        self._live_since_us = self._owed_before = None

    def _read_journeys(self) -> None:
        for journey in self.journeys.fresh():
            if self._live_since_us is not None and journey.committed_us >= self._live_since_us:
                self._latencies.append((journey.applied_us - journey.committed_us) / 1_000)

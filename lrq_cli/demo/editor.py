"""The application at Paris: it keeps the airports of the world up to date, and tells the sites that are concerned."""

import threading
from random import Random

from sqlalchemy import Engine, insert, select
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from lrq_cli.demo.airports import HUBS, REGIONS, SOURCE, Airport, all_airports, destinations, removal, upsert
from lrq_cli.demo.sites import CLIENT
from lrq_cli.demo.tally import Tally, count_everywhere

#: Time between two transactions, in seconds.
PAUSE = 0.012
#: Airports that are not open yet when it begins.
UNOPENED = 400


class SurveyRejectedError(Exception):
    """What was measured makes no sense: nothing of it may be kept, here or anywhere else."""


class Editor:
    """Makes changes, several in a transaction, some of which are rolled back."""

    def __init__(self, engine: Engine, chance: Random) -> None:
        """Work in the database of *engine*; *chance* decides what happens next."""
        self._engine = engine
        self._chance = chance
        self._client = RoutingQueueSenderClient(CLIENT)
        self._hubs = sorted(HUBS)
        self._open: list[str] = []
        self._unopened: list[Airport] = []

    def prepare(self) -> None:
        """Fill the table with what was there before anybody thought of replicating it."""
        airports = all_airports()
        self._chance.shuffle(airports)
        airports.sort(key=lambda facts: facts["icao"] in HUBS)
        self._unopened = [Airport(**facts) for facts in airports[:UNOPENED]]
        known = airports[UNOPENED:]
        self._open = [facts["icao"] for facts in known if facts["icao"] not in HUBS]
        with Session(self._engine) as session, session.begin():
            session.execute(insert(Airport), known)
            session.add_all(Tally(site=site) for site in (SOURCE, *REGIONS))

    def work(self, stopping: threading.Event) -> None:
        """Make one transaction after the other until *stopping* is set."""
        while not stopping.wait(PAUSE):
            ...

"""The application at Paris: it edits the airports of the world and transmits each change."""

import threading
from random import Random
from typing import Any, Final

from sqlalchemy import Engine, insert
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from lrq.demo.airports import HUBS, REGIONS, SOURCE, Airport, all_airports, destinations, removal, upsert
from lrq.demo.sites import CLIENT
from lrq.demo.tally import Tally, TransactionTally, count, tallies

#: Time between two transactions, in seconds.
PAUSE: Final = 0.02
#: Number of airports that are not open yet at the beginning.
UNOPENED: Final = 400


class SurveyRejectedError(Exception):
    """The measurements are wrong; the transaction and its entries are rolled back."""


class Editor:
    """Opens, surveys and closes airports, several in a transaction; some transactions are rolled back."""

    def __init__(self, engine: Engine, chance: Random) -> None:
        """Work in the database of *engine*; *chance* chooses the edits."""
        self._engine = engine
        self._chance = chance
        self._client = RoutingQueueSenderClient(CLIENT)
        self._open: list[str] = []
        self._unopened: list[dict[str, Any]] = []

    def prepare(self) -> None:
        """Fill the table with the airports that existed before replication began; no entry is transmitted."""
        airports = all_airports()
        local = [facts for facts in airports if facts["icao"] not in HUBS]
        self._chance.shuffle(local)
        self._unopened = local[:UNOPENED]
        self._open = [facts["icao"] for facts in local[UNOPENED:]]
        known = local[UNOPENED:] + [facts for facts in airports if facts["icao"] in HUBS]
        with Session(self._engine) as session, session.begin():
            session.execute(insert(Airport), known)
            session.add_all(Tally(site=site) for site in (SOURCE, *REGIONS))
            session.add(TransactionTally(site=SOURCE))

    def work(self, stopping: threading.Event) -> None:
        """Make one edit after the other until *stopping* is set."""
        edits = (self._survey, self._open_airports, self._close_airports, self._begin_survey_that_is_rejected)
        while not stopping.wait(PAUSE):
            (edit,) = self._chance.choices(edits, weights=(75, 10, 7, 8))
            edit()

    def _survey(self) -> None:
        with Session(self._engine) as session, session.begin():
            self._measure(session, self._some_airports())
            count(session, committed=1)

    def _begin_survey_that_is_rejected(self) -> None:
        try:
            with Session(self._engine) as session, session.begin():
                self._measure(session, self._some_airports())
                raise SurveyRejectedError
        except SurveyRejectedError:
            with Session(self._engine) as session, session.begin():
                count(session, rolled_back=1)

    def _open_airports(self) -> None:
        opened = [self._unopened.pop() for _ in range(min(self._chance.randint(1, 3), len(self._unopened)))]
        with Session(self._engine) as session, session.begin():
            for facts in opened:
                airport = Airport(**facts)
                session.add(airport)
                self._transmit(session, airport, upsert(airport))
            count(session, committed=1)
        self._open += [facts["icao"] for facts in opened]

    def _close_airports(self) -> None:
        closed = []
        with Session(self._engine) as session, session.begin():
            for code in self._chance.sample(self._open, self._chance.randint(1, 2)):
                airport = session.get_one(Airport, code)
                session.delete(airport)
                self._transmit(session, airport, removal(airport))
                closed.append(airport.facts())
            count(session, committed=1)
        self._open = [code for code in self._open if code not in {facts["icao"] for facts in closed}]
        self._unopened = closed + self._unopened

    def _some_airports(self) -> list[str]:
        """Choose a few airports; hubs are chosen more often."""
        return self._chance.sample(sorted(HUBS), self._chance.randint(0, 3)) + self._chance.sample(
            self._open, self._chance.randint(1, 5)
        )

    def _measure(self, session: Session, codes: list[str]) -> None:
        for code in codes:
            airport = session.get_one(Airport, code)
            airport.elevation += self._chance.choice((-2.0, -1.0, 1.0, 2.0))
            airport.lat = round(airport.lat + self._chance.uniform(-1e-4, 1e-4), 6)
            self._transmit(session, airport, upsert(airport))

    def _transmit(self, session: Session, airport: Airport, message: bytes) -> None:
        """Transmit *message* to the destinations of *airport*, in the transaction of the change."""
        sites = destinations(airport)
        self._client.transmit_log_entry_message(session, message, sites)
        # For the proof only.
        for tally in tallies(session, [SOURCE, *sites]):
            tally.count(message)

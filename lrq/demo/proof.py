"""Compare a sink with the source: every row of the table, and the tally of entries."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from discovery.receive_status import ReceiveQueueStatus
from lrq.demo.airports import Airport, destinations
from lrq.demo.tally import Tally


@dataclass(frozen=True, slots=True)
class SiteProof:
    """The comparison of one site with the source; `left_over` counts entries parked or not yet applied."""

    site: str
    owed: int
    missing: int
    unexpected: int
    different: int
    entries_owed: int
    entries_applied: int
    same_entries_in_order: bool
    left_over: int

    @property
    def ok(self) -> bool:
        """Whether the site holds exactly the rows and entries addressed to it."""
        no_row_is_wrong = not (self.missing or self.unexpected or self.different)
        return no_row_is_wrong and self.same_entries_in_order and not self.left_over

    def in_words(self) -> str:
        """Return the differences in one line."""
        return (
            f"{self.missing} rows missing, {self.unexpected} too many, {self.different} different; "
            f"{self.entries_applied} of {self.entries_owed} entries applied, {self.left_over} left over"
        )


def prove(site: str, source: Engine, sink: Engine, queues: Iterable[ReceiveQueueStatus]) -> SiteProof:
    """Compare *site* with its source after the last delivery; *queues* are the receive queues of the site."""
    with Session(source) as session:
        owed = {airport.icao: airport.facts() for airport in _airports(session) if site in destinations(airport)}
        written = session.get_one(Tally, site)
    with Session(sink) as session:
        held = {airport.icao: airport.facts() for airport in _airports(session)}
        applied = session.get(Tally, site) or Tally(site=site, entries=0, payload_bytes=0, fingerprint="nothing")
    return SiteProof(
        site=site,
        owed=len(owed),
        missing=len(owed.keys() - held.keys()),
        unexpected=len(held.keys() - owed.keys()),
        different=sum(held[code] != owed[code] for code in held.keys() & owed.keys()),
        entries_owed=written.entries,
        entries_applied=applied.entries,
        same_entries_in_order=_counts(written) == _counts(applied),
        left_over=sum(queue.outstanding + queue.parked for queue in queues),
    )


def _airports(session: Session) -> list[Airport]:
    return list(session.scalars(select(Airport)))


def _counts(tally: Tally) -> tuple[int, int, str]:
    return tally.entries, tally.payload_bytes, tally.fingerprint

"""Whether a site holds exactly what it is owed: its table, row by row, and its count of entries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from lrq_cli.demo.airports import Airport, destinations
from lrq_cli.demo.tally import Tally


@dataclass(frozen=True, slots=True)
class SiteProof:
    """What was compared at one site. `left_over` are entries that its subscriber has not applied, or has set aside."""

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
        """Tell whether the site holds exactly what it is owed."""
        no_row_is_wrong = not (self.missing or self.unexpected or self.different)
        return no_row_is_wrong and self.same_entries_in_order and not self.left_over

    def in_words(self) -> str:
        """Tell what is wrong."""
        return (
            f"{self.missing} rows missing, {self.unexpected} too many, {self.different} different; "
            f"{self.entries_applied} of {self.entries_owed} entries applied, {self.left_over} left over"
        )


def prove(site: str, source: Engine, sink: Engine, status: Mapping[str, Any]) -> SiteProof:
    """Compare *site* with its source, when all is delivered; *status* is what `lrq status` tells at the site."""
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
        left_over=sum(queue["outstanding"] + queue["parked"] for queue in status["receive_queues"]),
    )


def _airports(session: Session) -> list[Airport]:
    return list(session.scalars(select(Airport)))


def _counts(tally: Tally) -> tuple[int, int, str]:
    return tally.entries, tally.payload_bytes, tally.fingerprint

"""The application's data: the airports of the world, and the destinations of each."""

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

#: The site that makes every change.
SOURCE: Final = "paris"
#: The destinations, each with the first words of the time zones in its region.
REGIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "tokyo": ("Asia", "Australia", "Pacific"),
    "lima": ("America", "Antarctica"),
    "nairobi": ("Africa", "Arctic", "Atlantic", "Europe", "Indian"),
}
#: Airports that are sent to every site.
HUBS: Final = frozenset((
    "EDDF", "EDDM", "EGKK", "EGLL", "EHAM", "FAOR", "HECA", "HKJK", "KATL", "KCLT", "KDEN", "KDFW", "KEWR", "KJFK",
    "KLAS", "KLAX", "KMCO", "KMIA", "KORD", "KPHX", "KSEA", "KSFO", "LEBL", "LEMD", "LFPG", "LIRF", "LTFM", "MMMX",
    "OERK", "OMDB", "RJTT", "RKSI", "RPLL", "SAEZ", "SBGR", "SCEL", "SKBO", "SPJC", "VABB", "VHHH", "VIDP", "VTBS",
    "VVTS", "WIII", "WMKK", "WSSS", "YSSY", "ZBAA", "ZGGG", "ZSPD",
))  # fmt: skip


class Base(DeclarativeBase):
    """The tables of the application, the same at every site."""


class Airport(Base):
    """One airport, named by its ICAO code."""

    __tablename__ = "airports"

    icao: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    city: Mapped[str]
    country: Mapped[str]
    tz: Mapped[str]
    elevation: Mapped[float]
    lat: Mapped[float]
    lon: Mapped[float]

    def facts(self) -> dict[str, Any]:
        """Return all columns by name."""
        return {column: getattr(self, column) for column in COLUMNS}


COLUMNS: Final = tuple(Airport.__table__.columns.keys())


def destinations(airport: Airport) -> list[str]:
    """Return the destinations of *airport*: all sites for a hub, else the site of its region."""
    if airport.icao in HUBS:
        return list(REGIONS)
    zone = airport.tz.partition("/")[0]
    return [site for site, zones in REGIONS.items() if zone in zones]


def upsert(airport: Airport) -> bytes:
    """Return the message that creates or updates an airport."""
    return json.dumps({"upsert": airport.facts()}).encode()


def removal(airport: Airport) -> bytes:
    """Return the message that removes an airport."""
    return json.dumps({"delete": airport.icao}).encode()


def all_airports() -> list[dict[str, Any]]:
    """Return the columns of all airports of the world, about 28,000."""
    import airportsdata

    world: Mapping[str, Mapping[str, Any]] = airportsdata.load("ICAO")
    return [{column: known[column] for column in COLUMNS} for known in world.values()]

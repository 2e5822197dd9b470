"""The proof of the demonstration detects every kind of wrong row and entry."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.orm import Session

from lrq.demo.airports import Airport, Base
from lrq.demo.proof import SiteProof, prove
from lrq.demo.tally import Tally
from tests.discovery.statuses import a_queue


def airport(icao: str, tz: str = "Asia/Tokyo", elevation: float = 1.0) -> Airport:
    return Airport(icao=icao, name=icao, city="", country="", tz=tz, elevation=elevation, lat=0.0, lon=0.0)


def tally(*payloads: bytes) -> Tally:
    made = Tally(site="tokyo", entries=0, payload_bytes=0, fingerprint="")
    for payload in payloads:
        made.count(payload)
    return made


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., Engine]:
    """Give a function that creates a database with the given rows."""

    def make(name: str, *rows: Base) -> Engine:
        engine = create_engine(f"sqlite:///{tmp_path / name}.db", poolclass=NullPool)
        Base.metadata.create_all(engine)
        with Session(engine) as session, session.begin():
            session.add_all(rows)
        return engine

    return make


def proof(database: Callable[..., Engine], *held: Base, left: int = 0) -> SiteProof:
    owed = (airport("RJTT"), airport("RJAA"), airport("LFPO", "Europe/Paris"))
    return prove(
        "tokyo", database("paris", *owed, tally(b"1", b"2")), database("tokyo", *held), [a_queue(outstanding=left)]
    )


def test_a_site_with_exactly_its_rows_and_entries_passes(database: Callable[..., Engine]):
    found = proof(database, airport("RJTT"), airport("RJAA"), tally(b"1", b"2"))
    assert (found.ok, found.owed) == (True, 2)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ([airport("RJTT")], "1 rows missing, 0 too many, 0 different"),
        ([airport("RJTT"), airport("RJAA", elevation=2.0)], "0 rows missing, 0 too many, 1 different"),
        (
            [airport("RJTT"), airport("RJAA"), airport("LFPO", "Europe/Paris")],
            "0 rows missing, 1 too many, 0 different",
        ),
    ],
)
def test_a_missing_extra_or_different_row_fails(database: Callable[..., Engine], held: list[Airport], words: str):
    found = proof(database, *held, tally(b"1", b"2"))
    assert not found.ok
    assert found.in_words().startswith(words)


@pytest.mark.parametrize("payloads", [[b"1"], [b"1", b"2", b"2"], [b"2", b"1"], [b"1", b"3"], []])
def test_lost_doubled_or_reordered_entries_fail_though_all_rows_are_right(
    database: Callable[..., Engine], payloads: list[bytes]
):
    found = proof(database, airport("RJTT"), airport("RJAA"), tally(*payloads))
    assert (found.ok, found.same_entries_in_order) == (False, False)


def test_unapplied_entries_fail(database: Callable[..., Engine]):
    found = proof(database, airport("RJTT"), airport("RJAA"), tally(b"1", b"2"), left=1)
    assert (found.ok, found.left_over) == (False, 1)

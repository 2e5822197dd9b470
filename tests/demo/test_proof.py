"""The proof fails when it should: each way of being wrong is seen."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session

from lrq_cli.demo.airports import Airport, Base
from lrq_cli.demo.proof import SiteProof, prove
from lrq_cli.demo.tally import Tally

APPLIED: dict[str, Any] = {"receive_queues": [{"outstanding": 0, "parked": 0}]}


def airport(icao: str, tz: str = "Asia/Tokyo", elevation: float = 1.0) -> Airport:
    return Airport(icao=icao, name=icao, city="", country="", tz=tz, elevation=elevation, lat=0.0, lon=0.0)


def tally(*payloads: bytes) -> Tally:
    made = Tally(site="tokyo", entries=0, payload_bytes=0, fingerprint="")
    for payload in payloads:
        made.count(payload)
    return made


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., Engine]:
    """Give a function that makes a database with what it is given."""

    def make(name: str, *rows: Base) -> Engine:
        engine = create_engine(f"sqlite:///{tmp_path / name}.db")
        Base.metadata.create_all(engine)
        with Session(engine) as session, session.begin():
            session.add_all(rows)
        return engine

    return make


def proof(database: Callable[..., Engine], *held: Base, status: dict[str, Any] = APPLIED) -> SiteProof:
    owed = (airport("RJTT"), airport("RJAA"), airport("LFPO", "Europe/Paris"))
    return prove("tokyo", database("paris", *owed, tally(b"1", b"2")), database("tokyo", *held), status)


def test_a_site_that_holds_what_it_is_owed_is_proved(database: Callable[..., Engine]):
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
def test_a_row_that_is_wrong_is_told(database: Callable[..., Engine], held: list[Airport], words: str):
    found = proof(database, *held, tally(b"1", b"2"))
    assert not found.ok
    assert found.in_words().startswith(words)


@pytest.mark.parametrize("payloads", [[b"1"], [b"1", b"2", b"2"], [b"2", b"1"], [b"1", b"3"], []])
def test_entries_lost_doubled_or_out_of_order_are_told_though_all_rows_are_right(
    database: Callable[..., Engine], payloads: list[bytes]
):
    found = proof(database, airport("RJTT"), airport("RJAA"), tally(*payloads))
    assert (found.ok, found.same_entries_in_order) == (False, False)


def test_entries_that_nobody_has_applied_are_told(database: Callable[..., Engine]):
    waiting = {"receive_queues": [{"outstanding": 1, "parked": 0}]}
    found = proof(database, airport("RJTT"), airport("RJAA"), tally(b"1", b"2"), status=waiting)
    assert (found.ok, found.left_over) == (False, 1)

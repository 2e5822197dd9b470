"""`docs/arrivals.md`, typed: a listener fills a table, and programs take its rows by SQL alone."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, text

import lrq
from lrq.testing import deliver, pair
from tests.house.page_blocks import take
from tests.waiting import eventually

(PROGRAM,) = take(__name__, "docs/arrivals.md", "python")
TABLES = dict(zip(("postgresql", "sqlite"), take(__name__, "docs/arrivals.md", "sql", begin="CREATE"), strict=True))
(ON_POSTGRESQL,) = take(__name__, "docs/arrivals.md", "sql", begin="WITH")
(ON_SQLITE,) = take(__name__, "docs/arrivals.md", "sql", begin="DELETE")
TAKES = {"postgresql": ON_POSTGRESQL, "sqlite": ON_SQLITE}
WAITS = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
Row = tuple[int, str, str, str | None, bytes | None]


@pytest.fixture
def made() -> dict[str, Any]:
    """Give the names that the program of the page makes."""
    names: dict[str, Any] = {}
    exec(PROGRAM, names)
    return names


@pytest.fixture
def tokyo(site: Engine) -> Engine:
    with site.begin() as connection:
        connection.exec_driver_sql(TABLES[site.dialect.name])
    return site


@contextmanager
def program(site: Engine) -> Iterator[Callable[[], list[Row]]]:
    """Yield a program's way to take rows in a transaction that commits at the end of the block."""
    driver: Any = psycopg.connect(_conninfo(site)) if site.dialect.name == "postgresql" else _file(site)
    with closing(driver), driver:
        yield lambda: sorted(driver.execute(TAKES[site.dialect.name]).fetchall())


def _conninfo(site: Engine) -> str:
    return site.url.set(drivername="postgresql").render_as_string(hide_password=False)


def _file(site: Engine) -> sqlite3.Connection:
    connection = sqlite3.connect(str(site.url.database), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def test_a_program_takes_the_entries_of_a_source_once_and_in_order(made: dict[str, Any], tokyo: Engine):
    assert deliver(tokyo, made["store"], [b"1", (b"2", "key")], source="paris")
    assert deliver(tokyo, made["store"], [b"3"], source="paris", sequence=3)
    with program(tokyo) as rows:
        taken = rows()
    assert [row[1:] for row in taken] == [
        ("paris", "entry", None, b"1"), ("paris", "entry", "key", b"2"), ("paris", "entry", None, b"3"),
    ]  # fmt: skip
    with program(tokyo) as rows:
        assert rows() == []


def test_the_rows_of_a_program_that_dies_come_again(made: dict[str, Any], tokyo: Engine):
    def die() -> None:
        with program(tokyo) as rows:
            assert len(rows()) == 1
            raise RuntimeError("the program dies")

    assert deliver(tokyo, made["store"], [b"1"], source="paris")
    with pytest.raises(RuntimeError, match="dies"):
        die()
    with program(tokyo) as rows:
        assert [row[4] for row in rows()] == [b"1"]


def test_a_snapshot_replaces_the_waiting_rows_of_its_source_alone(made: dict[str, Any], tokyo: Engine):
    for source in ("paris", "lima"):
        assert deliver(tokyo, made["store"], [b"old"], source=source)
    assert deliver(tokyo, made["store"], [b"row"], source="paris", snapshot=True)
    with program(tokyo) as rows:
        assert [row[1:] for row in rows()] == [
            ("lima", "entry", None, b"old"), ("paris", "start", None, None),
            ("paris", "row", None, b"row"), ("paris", "complete", None, None),
        ]  # fmt: skip


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_second_program_waits_and_takes_the_rest_in_order(made: dict[str, Any], tokyo: Engine):
    assert deliver(tokyo, made["store"], [b"%d" % number for number in range(150)], source="paris")
    taken: list[list[Row]] = []

    def second() -> None:
        with program(tokyo) as rows:
            taken.append(rows())

    other = threading.Thread(target=second)
    with program(tokyo) as rows:
        first = rows()
        other.start()
        with tokyo.connect().execution_options(isolation_level="AUTOCOMMIT") as look:
            eventually(lambda: look.execute(WAITS).scalar())
        assert taken == []
    other.join()
    assert [row[4] for row in first + taken[0]] == [b"%d" % number for number in range(150)]


@pytest.mark.long
def test_entries_and_a_snapshot_arrive_from_another_site(made: dict[str, Any]):
    client = lrq.RoutingQueueSenderClient("policy")
    with pair("paris", "tokyo", initial_sync="snapshot") as (paris, tokyo):
        with tokyo.engine.begin() as connection:
            connection.exec_driver_sql(TABLES["sqlite"])
        tokyo.subscribe(made["store"])
        with client.start_snapshot_transmitter(paris.engine, lambda context: context.transmit(b"row")):
            with paris.session() as session, session.begin():
                client.transmit_log_entry_message(session, b"1", ["tokyo"])
            paris.settle(100)
        with paris.session() as session, session.begin():
            client.transmit_log_entry_message(session, b"2", ["tokyo"])
        paris.settle(100)
        with program(tokyo.engine) as rows:
            assert [(row[2], row[4]) for row in rows()] == [
                ("start", None), ("row", b"row"), ("complete", None), ("entry", b"2"),
            ]  # fmt: skip

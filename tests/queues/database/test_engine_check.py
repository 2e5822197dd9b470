"""Objects that are no engine, session or connection are refused in one sentence, by every front."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, create_mock_engine, make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import queues
from lr_client import RoutingQueueSenderClient, wait_applied
from lr_client.spark import exactly_once
from lr_server import LogReplicationServer
from queues.database.engine_check import require_connection, require_engine
from queues.errors import ConfigurationError, LrqError, UsageError
from sink import SinkWriter

_client = RoutingQueueSenderClient("policy")
_TOKEN = "paris/policy/b/1"

FRONTS: dict[str, Callable[[Any], object]] = {
    "initialize": lambda given: queues.initialize(given, site_id="paris"),
    "wait_applied": lambda given: wait_applied(given, _TOKEN, timeout=0),
    "wait_replicated": lambda given: _client.wait_replicated(given, _TOKEN, ["tokyo"], timeout=0),
    "start_snapshot_transmitter": lambda given: _client.start_snapshot_transmitter(given, object()),  # type: ignore[arg-type]
    "SinkWriter": lambda given: SinkWriter(given, "paris"),  # type: ignore[arg-type]
    "exactly_once": lambda given: exactly_once("name", given, lambda *_: None),
}


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Close the connections that a test opens."""
    with ExitStack() as stack:
        yield stack


def wrong_engines(file: Path, opened: ExitStack) -> dict[str, Any]:
    """Return objects that users mistake for an engine, by the words that name the right object."""
    engine, url = create_engine("sqlite://"), f"sqlite+aiosqlite:///{file}"
    opened.callback(engine.dispose)
    raw = opened.enter_context(closing(sqlite3.connect(file)))
    return {
        "needs an engine, not a Connection: pass `connection.engine`": opened.enter_context(engine.connect()),
        "needs an engine, not a Session: pass `session.get_bind()`": Session(engine),
        "needs an engine, not an AsyncEngine: this part of lrq works in threads": create_async_engine(url),
        "needs an engine, not an AsyncSession: this part": AsyncSession(create_async_engine(url)),
        "works in threads, and the engine is asynchronous: make one": create_async_engine(url).sync_engine,
        "needs an engine, not a sqlite3.Connection: make one with queues.create_engine": raw,
        "needs an engine, not a NoneType: make one with": None,
        "needs an engine, not the class Engine: make one with": Engine,
    }


@pytest.mark.parametrize("front", FRONTS)
def test_every_front_refuses_another_object_than_an_engine_in_one_sentence(
    front: str, tmp_path: Path, opened: ExitStack
) -> None:
    for words, given in wrong_engines(tmp_path / "x.db", opened).items():
        with pytest.raises(UsageError) as raised:
            FRONTS[front](given)
        assert str(raised.value).startswith(front)
        assert words in str(raised.value)


@pytest.mark.parametrize("front", [front for front in FRONTS if front != "exactly_once"])
def test_every_front_refuses_a_url_in_place_of_an_engine_without_repeating_it(front: str) -> None:
    for given in ("postgresql://me:secret@host/db", make_url("postgresql://me:secret@host/db")):
        with pytest.raises(UsageError, match=r"pass queues.create_engine\(url\)") as raised:
            FRONTS[front](given)
        assert "secret" not in str(raised.value)


def test_an_engine_of_another_driver_is_refused_with_the_url_to_write() -> None:
    mock = create_mock_engine("postgresql+asyncpg://", lambda *_: None)
    engine = create_engine("sqlite://")
    engine.dialect = mock.dialect
    engine.dialect.is_async = False
    with pytest.raises(ConfigurationError, match=r"begin the database URL with postgresql\+psycopg://"):
        require_engine(engine, "wait_applied")
    assert require_engine(engine, "exactly_once", of_any_database=True) is engine


def wrong_sessions(file: Path, opened: ExitStack) -> dict[str, Any]:
    """Return objects that users mistake for a session, by the words of the refusal."""
    engine, url = create_engine("sqlite://"), f"sqlite+aiosqlite:///{file}"
    return {
        "pass its Session or Connection, not an Engine": engine,
        "pass its Session or Connection, not an AsyncEngine": create_async_engine(url),
        "the session is asynchronous": AsyncSession(create_async_engine(url)),
        "pass its Session or Connection, not a sqlite3.Connection": opened.enter_context(
            closing(sqlite3.connect(file))
        ),
        "pass its Session or Connection, not a sessionmaker": sessionmaker(engine),
        "pass its Session or Connection, not a str": "sqlite:///paris.db",
    }


def test_requests_for_snapshots_refuse_another_object_than_a_session_in_one_sentence(
    tmp_path: Path, opened: ExitStack
) -> None:
    for words, given in wrong_sessions(tmp_path / "x.db", opened).items():
        for call in (
            lambda given: _client.request_snapshot_sync(given, "tokyo"),
            _client.request_global_snapshot_sync,
        ):
            with pytest.raises(UsageError, match=words):
                call(given)


def test_sessions_scoped_sessions_and_connections_give_their_connection(site: Engine) -> None:
    with site.connect() as connection:
        assert require_connection(connection, "transmit") is connection
        assert require_connection(Session(connection), "transmit") is connection
        assert require_connection(scoped_session(sessionmaker(connection)), "transmit") is connection


def test_a_server_is_given_settings_and_no_engine() -> None:
    with pytest.raises(UsageError, match=r"needs Settings, not Engine: Settings\(site_id=..., database_url=...\)"):
        LogReplicationServer(create_engine("sqlite://"))  # type: ignore[arg-type]


def test_a_wrong_driver_is_refused_in_a_url_object_too() -> None:
    with pytest.raises(ConfigurationError, match="not psycopg2: begin"):
        queues.create_engine(make_url("postgresql+psycopg2://host/db"))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:secret@host/db", r"through psycopg, not psycopg2: begin the .* postgresql\+psycopg://$"),
        ("postgres://me:secret@host/db", r"begin the database URL with postgresql\+psycopg://, not with postgres://$"),
        ("postgresql+psycopg2://me:secret@host/db", r"not psycopg2: begin the database URL with postgresql\+psycopg"),
        ("postgresql+pg8000://me:secret@host/db", "not pg8000: begin the database URL"),
        ("postgresql+asyncpg://me:secret@host/db", "not asyncpg: begin the database URL"),
        ("postgresql+psycopg_async://me:secret@host/db", "not psycopg_async: begin the database URL"),
        ("postgresql+nonsense://me:secret@host/db", "not nonsense: begin the database URL"),
        ("sqlite+pysqlcipher://:secret@/x.db", "SQLite through Python's sqlite3, not pysqlcipher: .* sqlite:///$"),
        ("sqlite+aiosqlite:///x.db", "not aiosqlite: begin the database URL with sqlite:///$"),
        ("mysql://me:secret@host/db", "write a URL such as|not with mysql"),
        ("secret", "write a URL such as"),
        (7, "create_engine needs a database URL, not int"),
    ],
)
def test_a_wrong_driver_is_refused_before_it_is_looked_for_with_the_url_to_write(url: Any, said: str) -> None:
    with pytest.raises(LrqError, match=said) as raised:
        queues.create_engine(url)
    assert "secret" not in str(raised.value)
    assert "pip install" not in str(raised.value)

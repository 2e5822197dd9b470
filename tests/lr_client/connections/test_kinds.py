"""Connections are recognised by the names of their classes, and all others are refused in one sentence."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import asyncpg.pool
import psycopg
import pytest
from django.core.cache import cache
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionProxy
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from lr_client.connections.dispatch import refusal
from lr_client.connections.kinds import ConnectionKind, kind_of, kind_of_class
from queues.errors import UsageError

ROOT = Path(__file__).parents[3]
client = RoutingQueueSenderClient("policy")

CLASSES: dict[type, ConnectionKind] = {
    Session: ConnectionKind.SQLALCHEMY,
    scoped_session: ConnectionKind.SQLALCHEMY,
    Connection: ConnectionKind.SQLALCHEMY,
    psycopg.Connection: ConnectionKind.PSYCOPG,
    sqlite3.Connection: ConnectionKind.SQLITE3,
    BaseDatabaseWrapper: ConnectionKind.DJANGO,
    ConnectionProxy: ConnectionKind.DJANGO,
    AsyncSession: ConnectionKind.ASYNC_SQLALCHEMY,
    async_scoped_session: ConnectionKind.ASYNC_SQLALCHEMY,
    AsyncConnection: ConnectionKind.ASYNC_SQLALCHEMY,
    psycopg.AsyncConnection: ConnectionKind.ASYNC_PSYCOPG,
    asyncpg.Connection: ConnectionKind.ASYNCPG,
    asyncpg.pool.PoolConnectionProxy: ConnectionKind.ASYNCPG,
    aiosqlite.Connection: ConnectionKind.AIOSQLITE,
}
NO_CONNECTIONS = [Engine, sessionmaker, asyncpg.Pool, psycopg.Cursor, sqlite3.Cursor, aiosqlite.Cursor, str, object]


@pytest.mark.parametrize("kind", ConnectionKind)
def test_the_classes_of_each_kind_are_recognised_as_their_libraries_name_them(kind: ConnectionKind) -> None:
    named = [each for each, of in CLASSES.items() if of is kind]
    assert named
    assert {kind_of_class(each.__module__, each.__name__) for each in named} == {kind}


def test_the_libraries_may_move_their_classes_between_their_modules() -> None:
    for each, kind in CLASSES.items():
        library = each.__module__.partition(".")[0]
        assert kind_of_class(f"{library}.another.place", each.__name__) is kind
        assert kind_of_class(library, each.__name__) is kind


@pytest.mark.parametrize("given", NO_CONNECTIONS)
def test_no_other_class_is_recognised(given: type) -> None:
    assert kind_of_class(given.__module__, given.__name__) is None


def test_a_name_counts_only_in_its_own_library() -> None:
    libraries = {each.__module__.partition(".")[0] for each in CLASSES}
    known = {(each.__module__.partition(".")[0], each.__name__) for each in CLASSES}
    for library in {*libraries, "mine", "multiprocessing.connection", "http"}:
        for name in {each.__name__ for each in CLASSES}:
            is_known = (library, name) in known
            assert (kind_of_class(library, name) is not None) == is_known


def test_a_subclass_of_the_application_is_of_the_kind_of_its_base() -> None:
    class Mine(sqlite3.Connection):
        """A connection of the application's own class."""

    class Ours(Session):
        """A session of the application's own class."""

    assert kind_of(Ours()) is ConnectionKind.SQLALCHEMY
    connection = Mine(":memory:")
    assert kind_of(connection) is ConnectionKind.SQLITE3
    connection.close()


def test_a_class_is_no_connection() -> None:
    assert [kind_of(each) for each in CLASSES] == [None] * len(CLASSES)


def test_a_proxy_of_django_that_leads_to_no_database_is_no_connection(settings_of_django: None) -> None:
    assert type(cache) is ConnectionProxy
    assert kind_of(cache) is None
    assert kind_of(ConnectionProxy(connections, "default")) is ConnectionKind.DJANGO
    assert kind_of(connections["default"]) is ConnectionKind.DJANGO


def sync_calls() -> list[Callable[[Any], object]]:
    messages = [LRMessageWithDestinations(b"x", ["tokyo"])]
    return [
        lambda given: client.transmit_log_entry_message(given, b"x", ["tokyo"]),
        lambda given: client.transmit_log_entry_messages(given, messages),
    ]


def async_calls() -> list[Callable[[Any], object]]:
    messages = [LRMessageWithDestinations(b"x", ["tokyo"])]
    return [
        lambda given: asyncio.run(client.atransmit_log_entry_message(given, b"x", ["tokyo"])),
        lambda given: asyncio.run(client.atransmit_log_entry_messages(given, messages)),
    ]


@pytest.mark.parametrize("call", [*sync_calls(), *async_calls()])
def test_another_object_is_refused_with_the_kinds_that_are_taken(call: Callable[[Any], object]) -> None:
    engine = create_engine("sqlite://")
    wrong = {"an Engine": engine, "a sessionmaker": sessionmaker(engine), "a str": "sqlite:///x", "a NoneType": None}
    for words, given in {**wrong, "the class Session": Session, "an object": object()}.items():
        with pytest.raises(UsageError, match=f"^transmit works in a transaction.* SQLAlchemy, .*, not {words}$"):
            call(given)


@pytest.mark.parametrize("call", sync_calls())
def test_an_asynchronous_connection_is_refused_with_the_call_to_write(call: Callable[[Any], object]) -> None:
    with pytest.raises(UsageError, match=r"^an AsyncSession is asynchronous: write `await client\.atransmit_log_entry"):
        call(AsyncSession(create_async_engine("sqlite+aiosqlite://")))


@pytest.mark.parametrize("call", async_calls())
def test_a_synchronous_connection_is_refused_with_the_call_to_write(call: Callable[[Any], object]) -> None:
    with pytest.raises(UsageError, match=r"^a Session is not asynchronous: write `client\.transmit_log_entry_message"):
        call(Session())
    connection = sqlite3.connect(":memory:")
    with pytest.raises(UsageError, match=r"^a sqlite3\.Connection is not asynchronous: write `client\.transmit_log"):
        call(connection)
    connection.close()


@pytest.mark.parametrize("kind", ConnectionKind)
def test_each_kind_is_refused_by_the_other_call_with_this_one(kind: ConnectionKind) -> None:
    assert "write `await client.atransmit" in refusal(object(), kind)
    assert "write `client.transmit" in refusal(object(), kind, wants_async=True)


def test_recognising_a_connection_imports_no_driver() -> None:
    code = (
        "import sqlite3, sys, lr_client, queues.errors\n"
        "client = lr_client.RoutingQueueSenderClient('policy')\n"
        "for given in (sqlite3.connect(':memory:'), object()):\n"
        "    try: client.transmit_log_entry_message(given, b'x', ['tokyo'])\n"
        "    except queues.errors.LrqError as error: print(type(error).__name__)\n"
        "print(sorted({'psycopg', 'asyncpg', 'aiosqlite', 'django', 'greenlet'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n") == ["NotInitializedError", "UsageError", "[]", ""]


@pytest.mark.parametrize("given", [(b"payload", ["tokyo"]), b"payload", None])
def test_a_message_of_another_kind_is_refused_in_one_sentence(given: Any) -> None:
    wanted = r"^a message is a LRMessageWithDestinations\(payload, destinations\), not a"
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(UsageError, match=wanted):
        client.transmit_log_entry_messages(connection, [given])

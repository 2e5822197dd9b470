"""On SQLite the entries of one transaction are one source transaction, and those of different ones are several."""

import os
import sqlite3
from contextlib import closing, suppress

import pytest
from sqlalchemy import Engine, text

from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from lr_client.connections.sqlite_calls import owner_of
from queues.send_log.sqlite.transmit_call import Joining, joining
from tests.lr_client.connections.applications import SQLITE, Application, Open, django_alias, file_of, run

client = RoutingQueueSenderClient("policy")
ONE = LRMessageWithDestinations(b"x", ["tokyo"])
on_sqlite = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
every_kind = pytest.mark.parametrize(("dialect", "kind"), [("sqlite", name) for name in SQLITE], indirect=["dialect"])


@pytest.fixture
def opening(kind: str, settings_of_django: None) -> Open:
    """Give the opener of the application of this kind."""
    return SQLITE[kind]


def sizes(site: Engine) -> list[int]:
    """Return the number of entries of each source transaction, in order."""
    counts = "SELECT count(*) FROM lrq_log_entries_0 GROUP BY transaction_id ORDER BY transaction_id"
    with site.connect() as connection:
        return list(connection.execute(text(counts)).scalars())


@every_kind
def test_the_calls_of_a_transaction_are_one_and_those_of_the_next_another(site: Engine, opening: Open) -> None:
    async def application(app: Application) -> None:
        for number in range(4):
            async with app.transaction():
                for _ in range(number):
                    await app.transmit(b"x")
                    async with app.savepoint():
                        await app.transmit(b"x")
                    async with app.savepoint(fails=True):
                        await app.transmit_all(ONE, ONE, ONE)
                await app.transmit_all(ONE, ONE)
            async with app.transaction(fails=True):
                await app.transmit(b"never")

    run(opening, site, application)
    assert sizes(site) == [2, 4, 6, 8]


@every_kind
def test_entries_after_the_rollback_of_a_first_savepoint_join_no_earlier_transaction(
    site: Engine, opening: Open
) -> None:
    async def application(app: Application) -> None:
        for _ in range(3):
            async with app.transaction():
                async with app.savepoint(fails=True):
                    await app.transmit_all(ONE, ONE)
                for _ in range(2):
                    await app.transmit(b"x")

    run(opening, site, application)
    assert sizes(site) == [2, 2, 2]


@on_sqlite
@pytest.mark.parametrize("checks_keys", [False, True])
def test_changes_of_the_application_between_the_calls_do_not_part_them(site: Engine, checks_keys: bool) -> None:
    with closing(sqlite3.connect(file_of(site))) as connection:
        connection.execute(f"PRAGMA foreign_keys = {checks_keys}")
        connection.execute("CREATE TABLE rules (text)")
        for _ in range(3):
            connection.execute("INSERT INTO rules VALUES ('rule')")
            client.transmit_log_entry_message(connection, b"x", ["tokyo"])
        connection.commit()
    assert sizes(site) == [3]


@on_sqlite
@pytest.mark.parametrize("checks_keys", [False, True])
def test_a_first_call_that_begins_the_transaction_is_a_part_of_it(site: Engine, checks_keys: bool) -> None:
    with closing(sqlite3.connect(file_of(site))) as connection:
        connection.execute(f"PRAGMA foreign_keys = {checks_keys}")
        for _ in range(3):
            client.transmit_log_entry_message(connection, b"x", ["tokyo"])
        connection.commit()
    assert sizes(site) == [3]


@on_sqlite
def test_with_foreign_keys_short_transactions_may_be_one_but_never_a_part_of_a_call(site: Engine) -> None:
    many = Joining.LIKELY.value
    with closing(sqlite3.connect(file_of(site))) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        for count in (1, 1, many + 500, 2, 1):
            connection.execute("UPDATE lrq_site SET site_id = site_id")
            client.transmit_log_entry_messages(connection, [ONE] * count)
            connection.commit()
    assert sizes(site) == [many + 502, 3]


@on_sqlite
def test_two_connections_never_share_a_source_transaction(site: Engine) -> None:
    with closing(sqlite3.connect(file_of(site))) as one, closing(sqlite3.connect(file_of(site))) as other:
        for connection in (one, other, one, one):
            connection.execute("PRAGMA foreign_keys = ON")
            client.transmit_log_entry_message(connection, b"x", ["tokyo"])
            connection.commit()
    assert sizes(site) == [1, 1, 1, 1]


def test_a_forked_process_takes_no_connection_for_one_of_its_parent() -> None:
    # Both processes have the object at the same address, as often happens to connections.
    connection = object()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, owner_of(connection).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading, "rb") as answer:
        assert answer.read().decode() not in ("", owner_of(connection))


@on_sqlite
def test_the_setting_of_foreign_keys_is_as_before(site: Engine) -> None:
    with closing(sqlite3.connect(file_of(site))) as connection:
        connection.executescript(
            "PRAGMA foreign_keys = ON; CREATE TABLE a (i PRIMARY KEY); CREATE TABLE b (i REFERENCES a)"
        )
        client.transmit_log_entry_message(connection, b"x", ["tokyo"])
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("INSERT INTO b VALUES (7)")


@on_sqlite
def test_django_without_atomic_blocks_keeps_a_transaction_whole(site: Engine, settings_of_django: None) -> None:
    from django.db import connections

    with django_alias(site) as alias:
        connections[alias].set_autocommit(False)
        client.transmit_log_entry_message(connections[alias], b"x", ["tokyo"])
        client.transmit_log_entry_message(connections[alias], b"x", ["tokyo"])
        connections[alias].commit()
        connections[alias].set_autocommit(True)
    assert sizes(site) == [2]


@on_sqlite
def test_blocks_of_django_that_do_not_commit_belong_to_one_transaction(site: Engine, settings_of_django: None) -> None:
    from django.db import connections, transaction

    with django_alias(site) as alias:
        connections[alias].set_autocommit(False)
        for _ in range(3):
            with transaction.atomic(using=alias):
                client.transmit_log_entry_message(connections[alias], b"x", ["tokyo"])
        connections[alias].commit()
        connections[alias].set_autocommit(True)
    assert sizes(site) == [3]


@on_sqlite
def test_a_decorated_function_of_django_has_its_own_transaction_at_each_call(
    site: Engine, settings_of_django: None
) -> None:
    from django.db import connections, transaction

    with django_alias(site) as alias:
        connection = connections[alias]

        @transaction.atomic(using=alias)
        def change(*, fails: bool = False) -> None:
            client.transmit_log_entry_message(connection, b"x", ["tokyo"])
            with suppress(ZeroDivisionError), transaction.atomic(using=alias):
                client.transmit_log_entry_message(connection, b"never", ["tokyo"])
                raise ZeroDivisionError
            client.transmit_log_entry_messages(connection, [ONE, ONE])
            if fails:
                raise ZeroDivisionError

        for fails in (False, True, False):
            with suppress(ZeroDivisionError):
                change(fails=fails)
        with closing(sqlite3.connect(file_of(site))) as other:
            client.transmit_log_entry_message(other, b"x", ["tokyo"])
            other.commit()
        change()
    assert sizes(site) == [3, 3, 1, 3]


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("checks_keys", [False, True])
@pytest.mark.parametrize("is_marked", [False, True])
def test_a_call_joins_earlier_entries_only_within_a_transaction(
    begun: bool, checks_keys: bool, is_marked: bool
) -> None:
    found = joining(begun=begun, checks_keys=checks_keys, is_marked=is_marked)
    assert (found is Joining.NEW) == (not begun or (not checks_keys and not is_marked))
    assert (found is Joining.SAME) == (begun and is_marked and not checks_keys)


@on_sqlite
@pytest.mark.parametrize("begin", ["BEGIN", "SAVEPOINT part"])
@pytest.mark.parametrize("checks_keys", [False, True])
def test_another_writer_after_the_begin_of_a_deferred_transaction_locks_no_call_out(
    site: Engine, begin: str, checks_keys: bool
) -> None:
    written: list[int] = []
    with (
        closing(sqlite3.connect(file_of(site), isolation_level=None)) as connection,
        closing(sqlite3.connect(file_of(site), isolation_level=None)) as other,
    ):

        def write(statement: str) -> None:
            if statement.startswith("INSERT INTO lrq_transmit") and not written:
                written.append(other.execute("INSERT INTO rules VALUES ('rule')").rowcount)

        connection.execute("CREATE TABLE rules (text)")
        connection.execute(f"PRAGMA foreign_keys = {checks_keys}")
        connection.execute(begin)
        connection.set_trace_callback(write)
        client.transmit_log_entry_message(connection, b"x", ["tokyo"])
        connection.execute("COMMIT")
    assert (written, sizes(site)) == ([1], [1])

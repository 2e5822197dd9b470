"""Ticks: each committed entry is found once, in order, in whole transactions."""

import re
import threading
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from lr_client.arguments import checked_payload
from lr_client.sender import LRMessageWithDestinations, RoutingQueueSenderClient
from lr_client.token_position import position_of
from queues.browse.api import browse
from queues.database import leases
from queues.database.postgresql.autocommit import Direct
from queues.database.tables.log import log_head
from queues.database.transactions import reading
from queues.errors import (
    NotInTransactionError,
    OwnershipLostError,
    PayloadTooLargeError,
    PayloadTypeError,
    StoreUnavailableError,
)
from queues.names import SEND_LOG_ENTRIES
from queues.positions import Visibility
from queues.send_log.opening import open_log
from queues.send_log.port import TickLimits, TickRows
from queues.send_log.postgresql.ticks import NEXT, SETTINGS
from queues.send_log.postgresql.windows import since
from tests.queues.reading import Reader
from tests.queues.send_log.transmitting import LIMA, TOKYO, client, transmit
from tests.waiting import eventually


def test_entries_of_many_calls_in_one_transaction_arrive_together_in_order(site: Engine, reader: Reader) -> None:
    transmit(site, b"1", b"2", b"3")
    assert [row.payload for row in reader.drain()] == [b"1", b"2", b"3"]
    assert len(reader.groups) == 1
    assert len({row.transaction for row in reader.groups[0].rows or []}) == 1


def test_a_rolled_back_transaction_replicates_nothing(site: Engine, reader: Reader) -> None:
    with Session(site) as session:
        client.transmit_log_entry_message(session, b"gone", ["tokyo"])
        session.rollback()
    transmit(site, b"kept")
    assert [row.payload for row in reader.drain()] == [b"kept"]


def test_a_rolled_back_savepoint_replicates_none_of_its_entries(site: Engine, reader: Reader) -> None:
    with Session(site) as session, session.begin():
        client.transmit_log_entry_message(session, b"before", ["tokyo"])
        with session.begin_nested() as savepoint:
            client.transmit_log_entry_message(session, b"inside", ["tokyo"])
            savepoint.rollback()
        with session.begin_nested():
            client.transmit_log_entry_message(session, b"kept savepoint", ["tokyo"])
        client.transmit_log_entry_message(session, b"after", ["tokyo"])
    with Session(site) as session, session.begin(), session.begin_nested() as savepoint:
        client.transmit_log_entry_message(session, b"alone", ["tokyo"])
        savepoint.rollback()
    transmit(site, b"next")
    rows = reader.drain()
    assert [row.payload for row in rows] == [b"before", b"kept savepoint", b"after", b"next"]
    assert len({row.transaction for row in rows}) == 2


def test_messages_of_one_call_keep_their_order(site: Engine, reader: Reader) -> None:
    messages = [
        LRMessageWithDestinations(str(n).encode(), ["tokyo"] if n % 2 else ["lima", "tokyo"]) for n in range(100)
    ]
    with site.begin() as connection:
        client.transmit_log_entry_messages(connection, messages)
    assert [row.payload for row in reader.drain()] == [m.payload for m in messages]
    assert reader.owed("lima") == [m.payload for m in messages if "lima" in m.destinations]


@pytest.mark.parametrize("others", [["tokyo"], ["lima"]], ids=["one set", "several sets"])
def test_messages_of_one_call_keep_their_own_keys(site: Engine, reader: Reader, others: list[str]) -> None:
    keys = [("item 1", "part 1"), ("item 2", None), (None, "part 3"), (None, None)]
    messages = [
        LRMessageWithDestinations(b"x", ["tokyo"] if number % 2 else others, item_key=item, partition_key=part)
        for number, (item, part) in enumerate(keys)
    ]
    with site.begin() as connection:
        client.transmit_log_entry_messages(connection, messages)
    reader.drain()
    found = browse(site, SEND_LOG_ENTRIES).entries
    assert [(entry.item_key, entry.partition_key) for entry in found] == keys
    assert [list(entry.outstanding) for entry in found] == [message.destinations for message in messages]


def test_a_list_of_destinations_may_change_between_the_messages_of_one_call(site: Engine, reader: Reader) -> None:
    destinations = ["lima"]

    def messages() -> Iterator[LRMessageWithDestinations]:
        for name in ("lima", "tokyo", "tokyo", "lima"):
            destinations[:] = [name]
            yield LRMessageWithDestinations(name.encode(), destinations)

    with site.begin() as connection:
        client.transmit_log_entry_messages(connection, messages())
    assert len(reader.drain()) == 4
    assert (reader.owed("lima"), reader.owed("tokyo")) == ([b"lima"] * 2, [b"tokyo"] * 2)


def test_payloads_are_kept_byte_for_byte(site: Engine, reader: Reader) -> None:
    payloads = (b"", b"\0", bytes(range(256)), b"%s%%", "é".encode())
    transmit(site, *payloads)
    assert tuple(row.payload for row in reader.drain()) == payloads


def test_bad_destinations_and_payloads_are_refused_before_an_entry_is_written(site: Engine, reader: Reader) -> None:
    small = RoutingQueueSenderClient("policy", max_payload_bytes=3)
    with Session(site) as session, session.begin():
        for destinations in ([], "tokyo", ["to kyo"], ["a,b"], [""], [None]):
            with pytest.raises(ValueError, match=r"destination|site id"):
                client.transmit_log_entry_message(session, b"x", destinations)  # type: ignore[arg-type]
        for key in ("", "nul\0", "x" * 513, "\ud800"):
            with pytest.raises(ValueError, match="item_key"):
                client.transmit_log_entry_message(session, b"x", ["tokyo"], item_key=key)
        with pytest.raises(PayloadTooLargeError, match="4 bytes, the limit is 3"):
            small.transmit_log_entry_message(session, b"1234", ["tokyo"])
    assert reader.drain() == []


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda text: memoryview(array("I", text))])
def test_the_limit_of_a_payload_counts_bytes_and_not_items(
    site: Engine, reader: Reader, wrap: Callable[[bytes], object]
) -> None:
    small = RoutingQueueSenderClient("policy", max_payload_bytes=8)
    with Session(site) as session, session.begin():
        with pytest.raises(PayloadTooLargeError, match="12 bytes, the limit is 8"):
            small.transmit_log_entry_message(session, wrap(b"x" * 12), ["tokyo"])  # type: ignore[arg-type]
        small.transmit_log_entry_message(session, wrap(b"12345678"), ["tokyo"])  # type: ignore[arg-type]
    assert [row.payload for row in reader.drain()] == [b"12345678"]


@pytest.mark.parametrize("payload", ["text", 7, None, [1, 2], object()])
def test_a_payload_that_is_not_like_bytes_is_refused_in_one_sentence(payload: object) -> None:
    with pytest.raises(PayloadTypeError, match=r"^the payload must be bytes, not \w+: encode it first$"):
        checked_payload(payload, 100)


def test_an_autocommit_connection_is_refused(site: Engine) -> None:
    with (
        site.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(NotInTransactionError),
    ):
        client.transmit_log_entry_message(connection, b"x", ["tokyo"])


def test_a_refused_autocommit_connection_takes_no_id(site: Engine, dialect: str) -> None:
    if dialect != "sqlite":
        pytest.skip("only the ids of SQLite have no gaps")
    with (
        site.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(NotInTransactionError),
    ):
        client.transmit_log_entry_message(connection, b"x", ["tokyo"])
    with reading(site) as connection:
        assert connection.execute(select(log_head.c.last_id)).scalar_one() == 0


def test_statements_of_the_driver_begin_and_roll_back_the_transaction_of_the_connection(
    site: Engine, reader: Reader
) -> None:
    with site.connect() as connection:
        client.transmit_log_entry_message(connection, b"undone", ["tokyo"])
        assert connection.in_transaction()
        connection.rollback()
        client.transmit_log_entry_message(connection, b"kept", ["tokyo"])
        connection.commit()
    assert [row.payload for row in reader.drain()] == [b"kept"]


def test_a_slow_transaction_is_never_skipped_and_delays_no_other(site: Engine, reader: Reader, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    with Session(site) as slow, slow.begin():
        client.transmit_log_entry_message(slow, b"slow", ["tokyo"])
        transmit(site, b"quick")
        assert [row.payload for row in reader.drain()] == [b"quick"]
    assert [row.payload for row in reader.drain()] == [b"slow"]


def test_a_backlog_is_split_into_ticks_within_the_limits(site: Engine, lease: leases.Lease) -> None:
    for n in range(20):
        transmit(site, *(f"{n}.{k}".encode() for k in range(3)))
    reader = Reader(site, lease, TickLimits(rows=7, payload_bytes=10_000))
    rows = reader.drain()
    assert [row.payload for row in rows] == [f"{n}.{k}".encode() for n in range(20) for k in range(3)]
    assert all(group.tick.rows == 6 for group in reader.groups)
    edges = [(group.tick.start_seq, group.tick.end_seq) for group in reader.groups]
    assert edges == [(6 * k, 6 * k + 6) for k in range(10)]


def test_the_ticks_of_a_backlog_give_the_same_rows_one_by_one_and_together(site: Engine, lease: leases.Lease) -> None:
    for n in range(30):
        transmit(site, *(f"{n}.{k}".encode() for k in range(n % 4 + 1)), to=("tokyo",) if n % 3 else ("tokyo", "lima"))
    reader = Reader(site, lease, TickLimits(rows=8, payload_bytes=10_000))
    reader.drain()
    transmit(site, b"late")
    reader.drain()
    ticks = [group.tick for group in reader.groups]
    live = [[r for r in group.rows or [] if "lima" in group.sets[r.tag_set]] for group in reader.groups]
    assert reader.log.read(LIMA, ticks) == live
    for index, tick in enumerate(ticks):
        assert reader.log.read(LIMA, [tick]) == [live[index]]
        assert reader.log.read(LIMA, ticks[index:]) == live[index:]
        assert reader.log.read(LIMA, ticks[: index + 1]) == live[: index + 1]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_reader_within_a_backlog_of_an_earlier_version_gets_all_its_rows(site: Engine, lease: leases.Lease) -> None:
    reader = Reader(site, lease, TickLimits(rows=2))
    for payload in (b"1", b"2", b"3"):
        transmit(site, payload)
    reader.drain()
    part, last = (group.tick for group in reader.groups)
    # An earlier version could not tell that the second part of the backlog is the last one.
    mark = replace(Visibility.parse(part.mark), upto=[row.order for row in reader.groups[1].rows or []][-1])
    with site.begin() as connection:
        values = {"mark": str(mark), "number": last.number}
        connection.execute(text("UPDATE lrq_ticks SET mark = :mark WHERE number = :number"), values)
    transmit(site, b"later")
    other = Reader(site, lease)
    other.groups.append(replace(reader.groups[1], tick=replace(last, mark=str(mark))))
    assert [row.payload for row in other.drain()] == [b"later"]
    found = other.log.ticks_after(part.end_seq, TickLimits())
    assert [[row.payload for row in rows] for rows in other.log.read(TOKYO, found)] == [[b"3"], [b"later"]]
    assert [group.rows for group in other.log.followed(found)] == other.log.read(TOKYO, found)


def test_one_transaction_above_the_limits_is_one_tick_that_is_read_in_parts(site: Engine, lease: leases.Lease) -> None:
    transmit(site, b"before")
    payloads = [str(n).encode() for n in range(50)]
    transmit(site, *payloads)
    transmit(site, b"after")
    reader = Reader(site, lease, TickLimits(rows=10, payload_bytes=10_000))
    rows = reader.drain()
    assert [row.payload for row in rows] == [b"before", b"after"]
    giant = reader.groups[1]
    assert giant.rows is None
    assert giant.tick.rows == 50
    pieces = list(reader.log.stream(TOKYO, giant.tick, 0, TickLimits(rows=20)))
    assert [row.payload for piece in pieces for row in piece.rows] == payloads
    assert [len(piece.rows) for piece in pieces] == [20, 20, 10]
    rest = list(reader.log.stream(TOKYO, giant.tick, 33, TickLimits(rows=20)))
    assert [row.payload for piece in rest for row in piece.rows] == payloads[33:]
    assert list(reader.log.stream(LIMA, giant.tick, 0, TickLimits(rows=20))) == []


def test_the_newest_transaction_is_found_by_its_token_although_it_is_above_the_limits(
    site: Engine, lease: leases.Lease
) -> None:
    transmit(site, b"before")
    token = transmit(site, *(str(n).encode() for n in range(50)))
    reader = Reader(site, lease, TickLimits(rows=10, payload_bytes=10_000))
    reader.drain()
    assert position_of(site, token).seq == 51
    transmit(site, b"after")
    assert [row.payload for row in reader.drain()] == [b"after"]
    ticks = [group.tick for group in reader.groups]
    assert [entry.row.payload for entry in next(reader.log.read_all(ticks[2:], TickLimits()))] == [b"after"]
    assert sum(len(piece.rows) for piece in reader.log.stream(TOKYO, ticks[1], 20, TickLimits(rows=20))) == 30


def test_the_newest_transaction_of_a_backlog_is_found_by_its_token(site: Engine, lease: leases.Lease) -> None:
    # PostgreSQL sorts so many transactions for the first tick.
    for n in range(256):
        token = transmit(site, b"%d" % n)
    reader = Reader(site, lease)
    assert [row.payload for row in reader.drain()] == [b"%d" % n for n in range(256)]
    assert position_of(site, token).seq == 256


def test_a_single_payload_above_the_limits_is_a_tick(site: Engine, lease: leases.Lease) -> None:
    transmit(site, b"a")
    transmit(site, b"x" * 5_000)
    transmit(site, b"b")
    reader = Reader(site, lease, TickLimits(rows=10, payload_bytes=1_000))
    reader.drain()
    assert [group.tick.rows for group in reader.groups] == [1, 1, 1]
    (piece,) = reader.log.stream(TOKYO, reader.groups[1].tick, 0, TickLimits(rows=20))
    assert piece.rows[0].payload == b"x" * 5_000


def test_a_destination_set_is_stored_as_a_number_after_its_first_ticks(site: Engine, reader: Reader) -> None:
    for _ in range(3):
        transmit(site, b"x", to=("lima", "tokyo"))
        reader.drain()
    transmit(site, b"x", to=("tokyo", "lima", "tokyo"))
    table = "lrq_log_entries" if site.dialect.name == "postgresql" else "lrq_log_entries_0"
    with site.connect() as connection:
        stored = connection.execute(text(f"SELECT destinations FROM {table} ORDER BY id")).scalars().all()
    assert stored == ["lima,tokyo", "lima,tokyo", None, None]
    reader.drain()
    assert reader.owed("lima") == [b"x"] * 4


def test_an_owner_that_was_replaced_takes_no_tick_and_its_successor_does(
    site: Engine, reader: Reader, lease: leases.Lease
) -> None:
    transmit(site, b"1")
    reader.drain()
    leases.release(site, lease)
    other = leases.acquire(site, "server", "another", ttl=60)
    assert other is not None
    transmit(site, b"2")
    with pytest.raises(OwnershipLostError, match="taken over"):
        reader.drain()
    successor = Reader(site, other)
    successor.groups = list(reader.groups)
    assert [row.payload for row in successor.drain()] == [b"2"]


def test_a_rare_destination_is_read_through_an_index(site: Engine, reader: Reader) -> None:
    with Session(site) as session, session.begin():
        client.transmit_log_entry_messages(session, [LRMessageWithDestinations(b"x", ["lima"]) for _ in range(2_000)])
    transmit(site, b"rare")
    reader.drain()
    ticks = [group.tick for group in reader.groups]
    (*_, found) = reader.log.read(TOKYO, ticks)
    assert [row.payload for row in found] == [b"rare"]


def test_a_tick_is_found_without_reading_earlier_commits(site: Engine, reader: Reader, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("there a tick is a range of ids")
    for _ in range(300):
        transmit(site, b"before")
    reader.drain()
    transmit(site, b"new")
    assert reader.last is not None
    window = Visibility.parse(reader.last.mark).window
    assert window is not None
    given = {**since(window), "commits": 256, "rows": 1_000, "bytes": 1 << 20}
    statement = NEXT % {name: f"${number}" for number, name in enumerate(given, 1)}
    values = ", ".join(
        f"'{{{str(value)[1:-1]}}}'" if isinstance(value, list) else str(value) for value in given.values()
    )
    direct = Direct(site, f"{SETTINGS}, set_config('plan_cache_mode', 'force_generic_plan', false)")
    with direct.asking() as ask:
        ask((f"PREPARE tick AS {statement}", {}))
        plan = "\n".join(line for (line,) in ask((f"EXPLAIN (ANALYZE, COSTS OFF) EXECUTE tick({values})", {})).rows)
    direct.close()
    assert re.search(r"^[^\n]*\(actual .*rows=1(\.00)? ", plan)
    assert sum(map(int, re.findall(r"Rows Removed by \w+.*: (\d+)", plan))) < 10


def test_a_tick_can_be_taken_after_its_connection_was_lost(site: Engine, reader: Reader, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has no connection to lose")
    for payload in (b"1", b"2"):
        transmit(site, payload)
        assert [row.payload for row in reader.drain()] == [payload]
    transmit(site, b"3")
    with site.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        others = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
        connection.execute(text(f"{others} WHERE datname = current_database() AND pid <> pg_backend_pid()"))
    with pytest.raises(StoreUnavailableError):
        reader.drain()
    assert [row.payload for row in reader.drain()] == [b"3"]
    assert [group.tick.number for group in reader.groups] == [1, 2, 3]


@pytest.mark.parametrize("stale", [0, 1], ids=["none", "the first"])
@pytest.mark.parametrize("to", ["tokyo", "lima"], ids=["known sets", "new sets"])
def test_a_tick_after_one_that_is_not_the_newest_is_refused_in_one_sentence(
    site: Engine, reader: Reader, stale: int, to: str
) -> None:
    for payload in (b"1", b"2"):
        transmit(site, payload)
        reader.drain()
    transmit(site, b"3", to=(to,))
    last = ([None] + [group.tick for group in reader.groups])[stale]
    with pytest.raises(StoreUnavailableError, match=r"another server has taken .*tick.*: try again"):
        reader.log.take_tick(reader.lease, last)
    assert [row.payload for row in reader.drain()] == [b"3"]
    assert [group.tick.number for group in reader.groups] == [1, 2, 3]


@pytest.mark.parametrize("to", ["tokyo", "lima"], ids=["known sets", "new sets"])
def test_a_tick_that_a_constraint_or_trigger_of_others_refuses_is_not_told_as_one_of_another_server(
    site: Engine, reader: Reader, to: str
) -> None:
    transmit(site, b"1")
    reader.drain()
    refusing = {
        "sqlite": "CREATE TRIGGER mine BEFORE INSERT ON lrq_ticks BEGIN SELECT RAISE(ABORT, 'no_ticks_today'); END",
        "postgresql": "ALTER TABLE lrq_ticks ADD CONSTRAINT no_ticks_today CHECK (number < 2)",
    }
    with site.begin() as connection:
        connection.exec_driver_sql(refusing[site.dialect.name])
    transmit(site, b"2", to=(to,))
    with pytest.raises(IntegrityError, match="no_ticks_today"):
        reader.drain()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_tick_is_shown_once_while_it_becomes_durable(site: Engine, reader: Reader) -> None:
    for payload in (b"1", b"2"):
        transmit(site, payload)
        reader.drain()
    transmit(site, b"3")
    shown: list[TickRows] = []
    taken = reader.log.take_tick(reader.lease, reader.last, shown.append)
    assert taken is not None
    assert shown == [taken]
    assert shown[0] is taken
    assert reader.log.bounds().newest == taken.tick
    assert reader.log.take_tick(reader.lease, taken.tick, shown.append) is None
    assert len(shown) == 1
    reader.log.close()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_tick_that_fails_is_shown_but_not_returned(site: Engine, reader: Reader) -> None:
    for payload in (b"1", b"2"):
        transmit(site, payload)
        reader.drain()
    transmit(site, b"3")
    shown: list[TickRows] = []
    stale = reader.groups[0].tick
    with pytest.raises(StoreUnavailableError):
        reader.log.take_tick(reader.lease, stale, shown.append)
    assert len(shown) == 1
    assert [row.payload for row in reader.drain()] == [b"3"]
    reader.log.close()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_an_error_while_a_tick_becomes_durable_breaks_the_connection_and_no_tick_is_lost(
    site: Engine, reader: Reader
) -> None:
    for payload in (b"1", b"2"):
        transmit(site, payload)
        reader.drain()
    transmit(site, b"3")

    def failing(group: TickRows) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        reader.log.take_tick(reader.lease, reader.last, failing)
    eventually(lambda: (reader.log.bounds().newest or reader.groups[-1].tick).number == 3)
    transmit(site, b"4")
    taken = reader.log.take_tick(reader.lease, reader.log.bounds().newest)
    assert taken is not None
    assert [row.payload for row in taken.rows or ()] == [b"4"]
    reader.log.close()


def test_entries_of_many_threads_are_read_without_gaps(site: Engine, reader: Reader) -> None:
    writers = [
        threading.Thread(target=lambda w=w: [transmit(site, f"{w}/{n}".encode()) for n in range(30)]) for w in range(4)
    ]
    for writer in writers:
        writer.start()
    rows = []
    while any(writer.is_alive() for writer in writers):
        rows += reader.drain()
    rows += reader.drain()
    payloads = [row.payload.decode() for row in rows]
    for w in range(4):
        assert [p for p in payloads if p.startswith(f"{w}/")] == [f"{w}/{n}" for n in range(30)]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_each_statement_of_the_log_sees_earlier_commits_under_any_default_isolation(site: Engine) -> None:
    with site.begin() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'"))
    site.dispose()
    with reading(site) as connection:
        assert connection.execute(text("SHOW transaction_isolation")).scalar_one() == "repeatable read"
    log = open_log(site, TickLimits())
    with reading(log._engine) as connection:
        assert connection.execute(text("SHOW transaction_isolation")).scalar_one() == "read committed"
    log.close()

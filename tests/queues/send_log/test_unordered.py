"""Entries without a place in the order of commits: reported, kept until retention, and sent or dropped on command."""

import threading

import pytest
from sqlalchemy import Connection, Engine, insert, text

from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from queues.database import schema
from queues.database.tables.sessions import sessions
from queues.errors import SchemaMismatchError
from queues.names import ClientName
from queues.send_log import unordered
from queues.send_log.opening import watch_log
from queues.send_log.port import Retention
from queues.send_log.postgresql import unordered as postgresql_unordered
from queues.send_log.trim_plan import Fate, plan
from queues.send_log.unordered import Unordered
from tests.queues.reading import Reader
from tests.queues.unordered import migrate_to, transmit, trigger_off, write_as_before
from tests.waiting import eventually

POLICY, BILLING = ClientName("policy"), ClientName("billing")
ENDED = Retention(seconds=-1.0)
COPY = text(
    "INSERT INTO lrq_log_entries (slot, xid, client, tag_set, destinations, created_us, payload) "
    "VALUES (0, :xid, 'policy', 1, :destinations, 0, 'copied')"
)


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def acknowledged(site: Engine) -> None:
    """Let tokyo have acknowledged every entry."""
    with site.begin() as connection:
        for client in ("policy", "billing"):
            connection.execute(
                insert(sessions).values(
                    client=client, destination="tokyo", state="", reason="", branch="", acked_seq=10**6,
                    cut="", lost_seq=0, transferred_rows=0, updated_us=0,
                )
            )  # fmt: skip


def recorded(site: Engine) -> list[Unordered]:
    with site.connect() as connection:
        return unordered.recorded(connection)


def close_segment(site: Engine, reader: Reader) -> None:
    """Close the segment with a tick after all its entries."""
    transmit(site, b"last")
    reader.drain()
    assert reader.rotate()


def kept(site: Engine) -> list[bytes]:
    with site.connect() as connection:
        return list(connection.execute(text("SELECT payload FROM lrq_log_entries ORDER BY id")).scalars())


def fates(site: Engine, retention: Retention) -> list[Fate]:
    return [each.fate for each in plan(site, retention)]


@pytest.fixture
def lost(site: Engine, reader: Reader, acknowledged: None) -> None:
    """Leave three unordered entries of two clients in a segment that all sites have acknowledged."""
    transmit(site, b"sent")
    with trigger_off(site):
        transmit(site, b"a", b"b")
        transmit(site, b"c", client="billing")
    close_segment(site, reader)


def test_a_segment_with_unordered_entries_is_kept_and_the_entries_are_reported(
    site: Engine, reader: Reader, lost: None
) -> None:
    trimmed = reader.trim()
    assert (trimmed.emptied_segments, trimmed.found_unordered) == (0, 3)
    assert kept(site) == [b"sent", b"a", b"b", b"c", b"last"]
    assert recorded(site) == [Unordered(BILLING, 1, 0), Unordered(POLICY, 2, 0)]
    assert fates(site, Retention()) == [Fate.UNORDERED]


def test_the_next_run_counts_only_new_unordered_entries(site: Engine, reader: Reader, lost: None) -> None:
    reader.trim()
    assert reader.trim().found_unordered == 0
    with trigger_off(site):
        transmit(site, b"d")
    assert reader.trim().found_unordered == 1
    assert recorded(site) == [Unordered(BILLING, 1, 0), Unordered(POLICY, 3, 0)]
    # Another server counts from the beginning.
    assert Reader(site, reader.lease).trim().found_unordered == 4
    assert recorded(site) == [Unordered(BILLING, 1, 0), Unordered(POLICY, 3, 0)]


def test_unordered_entries_beyond_retention_are_dropped_and_counted(site: Engine, reader: Reader, lost: None) -> None:
    assert fates(site, ENDED) == [Fate.LOST]
    trimmed = reader.trim(ENDED)
    assert (trimmed.emptied_segments, trimmed.dropped_unordered) == (1, 3)
    assert kept(site) == []
    assert recorded(site) == [Unordered(BILLING, 0, 1), Unordered(POLICY, 0, 2)]


def test_readers_do_not_wait_while_a_segment_is_searched(
    site: Engine, reader: Reader, acknowledged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_segment(site, reader)
    has_any, seen = postgresql_unordered.has_any, []

    def watched(connection: Connection, slot: int) -> bool:
        with site.begin() as another:
            another.execute(text("SET LOCAL lock_timeout = '2s'"))
            another.execute(text("SELECT count(*) FROM lrq_log_entries JOIN lrq_log_commits USING (xid)"))
            modes = text("SELECT mode FROM pg_locks WHERE relation = 'lrq_log_entries_0'::regclass AND pid = :pid")
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            seen.append("ShareLock" in another.execute(modes, {"pid": pid}).scalars().all())
        return has_any(connection, slot)

    monkeypatch.setattr(postgresql_unordered, "has_any", watched)
    assert reader.trim().emptied_segments == 1
    assert seen == [False, True]


def test_sent_entries_arrive_once_in_the_order_of_their_ids(site: Engine, reader: Reader, lost: None) -> None:
    reader.trim()
    assert unordered.send(site) == 3
    assert recorded(site) == []
    assert unordered.send(site) == 0
    assert [row.payload for row in reader.drain()] == [b"a", b"b", b"c"]
    assert recorded(site) == []
    assert reader.trim().emptied_segments == 1


def test_sent_entries_keep_their_headers_and_partition_keys(site: Engine, reader: Reader) -> None:
    with trigger_off(site), site.begin() as connection:
        RoutingQueueSenderClient("policy").transmit_log_entry_message(
            connection, b"1", ["tokyo"], partition_key="north", headers={"a": "b"}
        )
    assert unordered.send(site) == 1
    assert [(row.payload, row.partition_key, row.headers) for row in reader.drain()] == [(b"1", "north", '{"a":"b"}')]


def test_two_operators_send_each_entry_once(site: Engine, reader: Reader, lost: None) -> None:
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(unordered.send(site))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [0, 0, 0, 3]
    assert [row.payload for row in reader.drain()] == [b"a", b"b", b"c"]


def test_nothing_is_sent_while_the_trigger_is_off(site: Engine, lost: None) -> None:
    with trigger_off(site), pytest.raises(SchemaMismatchError, match="ENABLE ALWAYS TRIGGER"):
        unordered.send(site)
    assert b"a" in kept(site)


def test_dropped_entries_and_the_record_of_earlier_ones_are_removed(site: Engine, reader: Reader, lost: None) -> None:
    reader.trim(ENDED)
    with trigger_off(site):
        transmit(site, b"d")
    assert unordered.drop(site) == 1
    assert recorded(site) == []
    assert kept(site) == []


def test_entries_of_running_transactions_are_not_unordered(site: Engine, reader: Reader) -> None:
    with site.connect() as connection:
        RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b"slow", ["tokyo"])
        assert reader.trim().found_unordered == 0
        connection.commit()
    assert reader.trim().found_unordered == 0
    assert [row.payload for row in reader.drain()] == [b"slow"]


def test_entries_of_a_transaction_that_was_open_at_the_last_run_are_found(site: Engine, reader: Reader) -> None:
    with site.connect() as connection:
        connection.execute(text("ALTER TABLE lrq_log_entries_0 DISABLE TRIGGER ALL"))
        RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b"slow", ["tokyo"])
        connection.execute(text("ALTER TABLE lrq_log_entries_0 ENABLE ALWAYS TRIGGER lrq_sequence_commit"))
        assert reader.trim().found_unordered == 0
        connection.commit()
    assert reader.trim().found_unordered == 1


def test_a_transaction_in_two_segments_is_not_unordered_after_the_first_is_emptied(
    site: Engine, reader: Reader, acknowledged: None
) -> None:
    with site.begin() as connection:
        client = RoutingQueueSenderClient("policy")
        client.transmit_log_entry_message(connection, b"1", ["tokyo"])
        with site.begin() as another:
            another.execute(text("SELECT nextval('lrq_log_segment')"))
        client.transmit_log_entry_messages(connection, [LRMessageWithDestinations(b"2", ["tokyo"])] * 2)
    reader.drain()
    assert reader.trim().emptied_segments == 1
    assert Reader(site, reader.lease).trim().found_unordered == 0


def test_an_upgraded_log_has_no_unordered_entries_whose_place_was_in_an_emptied_segment(
    site: Engine, reader: Reader, acknowledged: None
) -> None:
    migrate_to(site, "0002")
    with site.begin() as connection:
        write_as_before(connection, b"1")
        with site.begin() as another:
            another.execute(text("SELECT nextval('lrq_log_segment')"))
        write_as_before(connection, b"2", b"2")
    migrate_to(site, schema.SCHEMA)
    with site.begin() as connection:
        connection.execute(text("UPDATE lrq_log_commits SET slot = 0"))  # the place that the earlier trigger gave
    reader.drain()
    assert reader.trim().emptied_segments == 1
    migrate_to(site, "0002")
    with trigger_off(site), site.begin() as connection:
        write_as_before(connection, b"lost")
    migrate_to(site, schema.SCHEMA)
    assert Reader(site, reader.lease).trim().found_unordered == 1
    assert unordered.send(site) == 1
    assert [row.payload for row in reader.drain()] == [b"lost"]


@pytest.mark.parametrize("xid", [3, 10**15])
def test_copied_entries_are_reported_before_retention_drops_them(
    site: Engine, reader: Reader, acknowledged: None, xid: int
) -> None:
    reader.trim()
    with site.begin() as connection:
        connection.execute(COPY, {"xid": xid, "destinations": "tokyo"})
    close_segment(site, reader)
    assert reader.trim().emptied_segments == 0
    assert recorded(site) == [Unordered(POLICY, 1, 0)]
    assert reader.trim(ENDED).dropped_unordered == 1


@pytest.fixture
def copied_with_place(site: Engine, reader: Reader) -> None:
    """Copy an entry and its place from a database that has given more transaction ids."""
    transmit(site, b"own")
    assert [row.payload for row in reader.drain()] == [b"own"]
    reader.trim()
    with site.begin() as connection:
        connection.execute(COPY, {"xid": 10**15, "destinations": "tokyo"})
        connection.execute(text(PLACE), {"xid": 10**15})


PLACE = "INSERT INTO lrq_log_commits (slot, xid, commit_seq, committed_us) VALUES (0, :xid, 2, 0)"


def test_a_copied_entry_with_an_id_of_the_future_and_its_place_is_in_no_tick(
    site: Engine, reader: Reader, copied_with_place: None
) -> None:
    assert reader.log.take_tick(reader.lease, reader.last) is None
    transmit(site, b"next")
    group = reader.log.take_tick(reader.lease, reader.last)
    assert group is not None
    assert [row.payload for row in group.rows or []] == [b"next"]
    assert reader.log.take_tick(reader.lease, group.tick) is None


@pytest.mark.parametrize("is_first", [True, False])
def test_a_copied_entry_with_a_copied_place_is_reported_once_and_loses_the_place(
    site: Engine, reader: Reader, copied_with_place: None, is_first: bool
) -> None:
    run = Reader(site, reader.lease) if is_first else reader
    assert [run.trim().found_unordered for _ in range(2)] == [1, 0]
    assert recorded(site) == [Unordered(POLICY, 1, 0)]
    with site.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM lrq_log_commits WHERE xid = 10^15")).scalar_one() == 0
    # Another server finds the same.
    assert Reader(site, reader.lease).trim().found_unordered == 1
    assert recorded(site) == [Unordered(POLICY, 1, 0)]


def test_copied_entries_with_copied_places_are_sent_or_dropped_before_trim_has_found_them(
    site: Engine, reader: Reader, copied_with_place: None
) -> None:
    assert unordered.drop(site) == 1
    assert kept(site) == [b"own"]
    with site.begin() as connection:
        connection.execute(COPY, {"xid": 10**15, "destinations": "tokyo"})
        connection.execute(text(PLACE), {"xid": 10**15})
    assert unordered.send(site) == 1
    assert [row.payload for row in reader.drain()] == [b"copied"]


def test_a_copied_entry_without_known_destinations_is_not_sent(site: Engine, reader: Reader) -> None:
    with site.begin() as connection:
        connection.execute(COPY, {"xid": 3, "destinations": None})
    assert unordered.send(site) == 0
    assert recorded(site) == [Unordered(POLICY, 1, 0)]
    assert reader.drain() == []
    assert unordered.drop(site) == 1


def test_sending_unordered_entries_wakes_a_waiting_server(site: Engine, lost: None) -> None:
    watch = watch_log(site)
    try:
        watch.changed()
        assert watch.wait_for_notify()
        unordered.send(site)
        eventually(watch._was_notified)  # type: ignore[attr-defined]
    finally:
        watch.close()

"""Rotation with a retention: it leaves enough empty partitions until the oldest segment goes."""

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from lr_client.sender import RoutingQueueSenderClient
from queues.database import leases
from queues.send_log.port import Retention
from tests.clusters import cluster, site_of
from tests.queues.reading import Reader

PAYLOAD = bytes(1_000)
LONG = Retention(seconds=86_400.0)


def write(site: Engine, reader: Reader, payload: bytes = PAYLOAD) -> None:
    """Write an entry, and take its tick."""
    with Session(site) as session, session.begin():
        RoutingQueueSenderClient("policy").transmit_log_entry_message(session, payload, ["tokyo"])
    reader.drain()


def rotates(site: Engine, reader: Reader, retention: Retention | None, payload: bytes = PAYLOAD) -> bool:
    """Write an entry, and try to begin a new segment behind it."""
    write(site, reader, payload)
    return reader.log.rotate(reader.lease, 1, 0, retention)


def test_quick_rotations_stop_while_the_oldest_segment_is_young(site: Engine, reader: Reader) -> None:
    assert [rotates(site, reader, LONG) for _ in range(4)] == [True, True, False, False]
    # Without a retention only the number of partitions is a limit.
    assert [rotates(site, reader, None) for _ in range(6)] == [True] * 5 + [False]


def test_the_next_rotation_comes_once_the_oldest_segment_is_old_enough(site: Engine, reader: Reader) -> None:
    assert [rotates(site, reader, LONG) for _ in range(3)] == [True, True, False]
    assert rotates(site, reader, Retention(seconds=1e-6)), "by age"


def test_the_next_rotation_comes_once_enough_was_written_since_the_oldest_segment(site: Engine, reader: Reader) -> None:
    retention = Retention(seconds=86_400.0, payload_bytes=100_000)
    large = bytes(20_000)
    assert [rotates(site, reader, retention, large) for _ in range(3)] == [True, True, True]
    assert [rotates(site, reader, retention) for _ in range(2)] == [True, False]
    assert rotates(site, reader, retention, large)


def test_segments_are_at_most_a_sixth_of_retention_long(site: Engine, reader: Reader) -> None:
    assert rotates(site, reader, None)
    write(site, reader)
    assert not reader.log.rotate(reader.lease, 10**9, 10**9, LONG)
    assert reader.log.rotate(reader.lease, 10**9, 10**9, Retention(payload_bytes=6_000))


def test_a_segment_that_was_opened_at_a_later_time_closes_at_once(site: Engine, reader: Reader) -> None:
    assert rotates(site, reader, None)
    write(site, reader)
    with Session(site) as session, session.begin():
        # The clock was years ahead at the rotation, and went back.
        session.execute(text("UPDATE lrq_log_head SET opened_us = opened_us * 2"))
    assert reader.log.rotate(reader.lease, 10**9, 10**9, LONG)
    write(site, reader)
    assert not reader.log.rotate(reader.lease, 10**9, 10**9, LONG), "the new segment began now"


@pytest.mark.long
def test_the_segment_of_an_entry_and_that_of_its_commit_keep_their_order_through_a_crash() -> None:
    with cluster() as server:
        site = site_of(server, "paris")
        lease = leases.acquire(site, "server", "paris", ttl=60)
        assert lease is not None
        reader = Reader(site, lease)
        client = RoutingQueueSenderClient("policy")
        with site.connect() as connection:
            with connection.begin():
                connection.exec_driver_sql("CHECKPOINT")
            assert rotates(site, reader, None)
            with connection.begin():
                client.transmit_log_entry_message(connection, b"straddles", ["tokyo"])
                assert rotates(site, reader, None)
        assert partitions(site) == (2, 1, 2)
        reader.log.close()
        server.kill()
        site.dispose()
        server.start()
        assert partitions(site) == (2, 1, 2), "the later partition is trimmed last"
        site.dispose()


def partitions(site: Engine) -> tuple[int, ...]:
    """Return the partition of now, and those of the entry "straddles" and of its commit."""
    now = "(SELECT last_value % 8 FROM lrq_log_segment)"
    entry = "SELECT slot, xid FROM lrq_log_entries WHERE payload = 'straddles'"
    found = f"SELECT {now}, e.slot, c.slot FROM ({entry}) e JOIN lrq_log_commits c USING (xid)"
    with site.connect() as connection:
        return tuple(connection.execute(text(found)).one())

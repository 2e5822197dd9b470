"""Ticks on PostgreSQL are emptied partition by partition, so a held snapshot keeps no dead rows of them."""

from typing import NamedTuple

import pytest
from sqlalchemy import Engine, select, text, update

from lr_server.protocol.histories import SinkHistory, TickKey
from lr_server.session.history import source_history
from queues.database.tables.ticks import TICK_PARTITIONS, ticks
from queues.database.transactions import reading
from queues.send_log import segments
from queues.send_log import ticks as tick_rows
from queues.send_log.port import TickLimits
from queues.send_log.reads import keep_ticks
from tests.fresh_statistics import tell_statistics
from tests.queues.held import held_snapshot
from tests.queues.reading import Reader
from tests.queues.send_log.transmitting import LIMA, acknowledge, client

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)

KEPT = 3
A_SLOT = 2
DEAD = text(
    "SELECT relname, n_dead_tup FROM pg_stat_user_tables"
    " WHERE relname ~ '^lrq_(ticks|log_entries|log_commits)_' OR relname = 'lrq_sessions'"
)


class Stored(NamedTuple):
    number: int
    slot: int


@pytest.fixture(autouse=True)
def few_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "KEPT_TICKS", KEPT)
    monkeypatch.setattr(tick_rows, "TICKS_A_PARTITION", A_SLOT)


def go_on(site: Engine, reader: Reader, times: int) -> None:
    """Repeat *times*: transmit an entry, take and acknowledge its tick, begin a segment, trim."""
    for _ in range(times):
        with site.begin() as connection:
            client.transmit_log_entry_message(connection, b"x", ["tokyo"])
        assert len(reader.drain()) == 1
        assert reader.last is not None
        acknowledge(site, "tokyo", reader.last.end_seq)
        reader.rotate()
        reader.trim()


def stored(engine: Engine) -> list[Stored]:
    with engine.connect() as connection:
        found = connection.execute(select(ticks.c.number, ticks.c.slot).order_by(ticks.c.number))
        return [Stored(*row) for row in found]


def dead_rows(engine: Engine) -> dict[str, int]:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        return {name: count for name, count in connection.execute(DEAD).all() if count}


def told(engine: Engine) -> None:
    """Flush the statistics of the connection, so that `dead_rows` sees them."""
    with engine.begin() as connection:
        tell_statistics(connection)


def test_neither_ticks_nor_entries_leave_dead_rows_while_a_snapshot_is_held(site: Engine, reader: Reader) -> None:
    with held_snapshot(site):
        go_on(site, reader, 60)
        told(site)
        # Rows of sessions are updated one by one and leave dead rows: the statistics work.
        assert dead_rows(site).keys() == {"lrq_sessions"}
    assert len(stored(site)) <= KEPT + TICK_PARTITIONS * A_SLOT


def test_each_tick_is_in_the_partition_of_its_number(site: Engine, reader: Reader) -> None:
    for _ in range(10):
        go_on(site, reader, 3)
        kept = stored(site)
        assert [tick.number for tick in kept] == list(range(kept[0].number, kept[-1].number + 1))
        assert all(tick.slot == tick_rows.partition_of(tick.number) for tick in kept)
    assert {tick.slot for tick in kept} > {kept[-1].slot}


def test_ticks_continue_after_a_tick_in_another_partition(site: Engine, reader: Reader) -> None:
    go_on(site, reader, 1)
    with site.begin() as connection:
        connection.execute(update(ticks).values(slot=TICK_PARTITIONS - 1))
    go_on(site, reader, 2)
    assert [tick.number for tick in stored(site)] == [1, 2, 3]


def test_the_promised_number_of_ticks_is_kept_behind_the_trimmed_ones(site: Engine, reader: Reader) -> None:
    go_on(site, reader, 30)
    numbers = {tick.number for tick in stored(site)}
    assert numbers >= set(range(30 - KEPT, 31))
    assert 1 not in numbers


def test_the_tick_of_a_session_s_position_is_kept_once_at_any_age(site: Engine, reader: Reader) -> None:
    go_on(site, reader, 1)
    first = reader.groups[0].tick
    acknowledge(site, "lima", first.end_seq)
    for _ in range(10):
        go_on(site, reader, 5)
        assert [tick.number for tick in stored(site)].count(first.number) == 1
    header = TickKey(first.branch, first.end_seq, first.uid)
    assert source_history(site, LIMA, SinkHistory(headers=(header,))).known == {header}
    assert source_history(site, LIMA, SinkHistory(headers=(header._replace(uid=0),))).known == set()


def test_ticks_stay_while_trimming_is_blocked_and_go_afterwards(site: Engine, reader: Reader) -> None:
    with site.begin() as connection:
        client.transmit_log_entry_message(connection, b"x", ["lima"])
    reader.drain()
    acknowledge(site, "lima", 0)
    go_on(site, reader, 40)
    assert [tick.number for tick in stored(site)] == list(range(1, 42))
    assert len(reader.log.ticks_after(0, TickLimits())) == 41
    acknowledge(site, "lima", 41)
    go_on(site, reader, 20)
    assert len(stored(site)) <= KEPT + TICK_PARTITIONS * A_SLOT


def test_a_reader_of_ticks_keeps_them_while_entries_are_trimmed(site: Engine, reader: Reader) -> None:
    with reading(site, snapshot=True) as connection:
        keep_ticks(connection)
        go_on(site, reader, 30)
        assert reader.log.bounds().trimmed_seq >= 29
        # The snapshot begins with the first query, not with the wait for the lock.
        seen = connection.execute(select(ticks.c.number).order_by(ticks.c.number)).scalars().all()
        assert seen == list(range(1, 31))
    go_on(site, reader, 10)
    assert len(stored(site)) <= KEPT + TICK_PARTITIONS * A_SLOT

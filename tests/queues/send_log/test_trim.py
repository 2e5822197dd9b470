"""Trim: a segment goes once all sessions have its entries, or beyond retention, and no entry is lost in silence."""

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from queues.database import leases
from queues.errors import TrimmedError
from queues.send_log import links
from queues.send_log.port import Retention, TickLimits
from queues.states import LinkWish
from tests.queues.reading import Reader
from tests.queues.send_log.transmitting import LIMA, TOKYO, acknowledge, client, transmit


def stored(engine: Engine) -> int:
    names = [f"lrq_log_entries_{slot}" for slot in range(8)]
    with engine.connect() as connection:
        return sum(connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in names)


def test_acknowledged_entries_are_trimmed_with_their_segment(site: Engine, reader: Reader) -> None:
    transmit(site, b"1", b"2")
    reader.drain()
    acknowledge(site, "tokyo", 2)
    assert reader.trim().emptied_segments == 0, "the current segment stays"
    assert reader.rotate()
    transmit(site, b"3")
    reader.drain()
    trimmed = reader.trim()
    assert (trimmed.emptied_segments, trimmed.seq, trimmed.laggards) == (1, 2, ())
    assert stored(site) == 1
    with pytest.raises(TrimmedError):
        reader.log.ticks_after(1, TickLimits())
    (tick,) = reader.log.ticks_after(2, TickLimits())
    ((row,),) = reader.log.read(TOKYO, [tick])
    assert row.payload == b"3"
    with pytest.raises(TrimmedError):
        reader.log.read(TOKYO, [reader.groups[0].tick])


def test_a_trimmed_destination_set_is_recorded_again_at_its_next_use(site: Engine, reader: Reader) -> None:
    transmit(site, b"1")
    reader.drain()
    acknowledge(site, "tokyo", 1)
    assert reader.rotate()
    assert reader.trim().emptied_segments == 1
    transmit(site, b"2")
    reader.drain()
    (tick,) = reader.log.ticks_after(1, TickLimits())
    ((row,),) = reader.log.read(TOKYO, [tick])
    assert row.payload == b"2"


def test_a_site_that_lags_keeps_its_entries_until_retention_and_then_loses_them(site: Engine, reader: Reader) -> None:
    transmit(site, b"1", to=("tokyo", "lima"))
    reader.drain()
    acknowledge(site, "tokyo", 1)
    acknowledge(site, "lima", 0)
    reader.rotate()
    assert reader.trim().emptied_segments == 0
    trimmed = reader.trim(Retention(seconds=0))
    assert trimmed.emptied_segments == 1
    assert trimmed.laggards == (LIMA,)
    with site.connect() as connection:
        lost = dict(connection.execute(text("SELECT destination, lost_seq FROM lrq_sessions")).all())
    assert lost == {"tokyo": 0, "lima": 1}


def test_a_released_site_keeps_no_entries_and_its_loss_is_recorded(site: Engine, reader: Reader) -> None:
    transmit(site, b"1", to=("tokyo", "lima"))
    reader.drain()
    acknowledge(site, "tokyo", 0)
    acknowledge(site, "lima", 0)
    reader.rotate()
    with site.begin() as connection:
        links.set_wish(connection, [LIMA], LinkWish.RELEASED)
    assert reader.trim().emptied_segments == 0, "tokyo lacks the entry"
    acknowledge(site, "tokyo", 1)
    trimmed = reader.trim()
    assert (trimmed.emptied_segments, trimmed.laggards) == (1, (LIMA,))
    with site.connect() as connection:
        lost = dict(connection.execute(text("SELECT destination, lost_seq FROM lrq_sessions")).all())
    assert lost == {"tokyo": 0, "lima": 1}


def test_a_site_that_claims_again_keeps_its_entries(site: Engine, reader: Reader) -> None:
    transmit(site, b"1", to=("lima",))
    reader.drain()
    acknowledge(site, "lima", 0)
    reader.rotate()
    with site.begin() as connection:
        links.set_wish(connection, [LIMA], LinkWish.RELEASED)
        assert links.begin_by_itself(connection, LIMA)
    assert reader.trim().emptied_segments == 0


def test_a_session_that_lags_loses_nothing_if_no_entry_was_for_it(site: Engine, reader: Reader) -> None:
    transmit(site, b"1")
    reader.drain()
    acknowledge(site, "tokyo", 1)
    acknowledge(site, "lima", 0)
    reader.rotate()
    trimmed = reader.trim()
    assert (trimmed.emptied_segments, trimmed.laggards) == (1, ())


def test_a_session_that_has_a_large_transaction_holds_up_no_later_trim(site: Engine, lease: leases.Lease) -> None:
    reader = Reader(site, lease, TickLimits(rows=10))
    transmit(site, *(b"%d" % n for n in range(20)))
    reader.drain()
    acknowledge(site, "tokyo", 20)
    transmit(site, b"later", to=("lima",))
    reader.drain()
    acknowledge(site, "lima", 21)
    reader.rotate()
    trimmed = reader.trim()
    assert (trimmed.emptied_segments, trimmed.laggards) == (1, ())


def test_entries_for_an_unknown_site_are_kept_until_retention(site: Engine, reader: Reader) -> None:
    transmit(site, b"1", to=("tokyo", "nairobi"))
    reader.drain()
    acknowledge(site, "tokyo", 1)
    reader.rotate()
    assert reader.trim().emptied_segments == 0
    assert reader.trim(Retention(payload_bytes=0)).emptied_segments == 1


def test_an_open_transaction_keeps_its_segment(site: Engine, reader: Reader, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    transmit(site, b"1")
    reader.drain()
    acknowledge(site, "tokyo", 1)
    with Session(site) as slow, slow.begin():
        client.transmit_log_entry_message(slow, b"slow", ["tokyo"])
        reader.rotate()
        assert reader.trim(Retention(seconds=0)).emptied_segments == 0
    assert reader.trim(Retention(seconds=0)).emptied_segments == 0, "it is not in a tick yet"
    assert [row.payload for row in reader.drain()] == [b"slow"]
    assert reader.trim(Retention(seconds=0)).emptied_segments == 1


def test_no_entry_is_lost_while_segments_are_reused(site: Engine, reader: Reader) -> None:
    for n in range(40):
        transmit(site, str(n).encode())
        assert [row.payload for row in reader.drain()] == [str(n).encode()]
        acknowledge(site, "tokyo", n + 1)
        assert reader.rotate()
        assert reader.trim().emptied_segments == 1
    assert stored(site) == 0

"""The traffic of a session: bytes, reconnects, and the delays of its entries."""

import pytest

from lr_server.session.traffic import BOUNDS, Delays, SessionTraffic, Traffic
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey

OWED = SessionKey(ClientName("policy"), SiteId("tokyo"))
SECOND = 1_000_000


def found(delays: Delays) -> dict[float, int]:
    """Return the numbers of entries that are not 0, by their upper bounds."""
    return {bound: number for bound, number in zip((*BOUNDS, 9e9), delays.numbers, strict=True) if number}


@pytest.mark.parametrize(("seconds", "bound"), [(0.0, 0.002), (0.002, 0.002), (0.003, 0.005), (4000.0, 9e9)])
def test_a_delay_counts_below_its_upper_bound(seconds: float, bound: float):
    delays = Delays().plus(3, seconds)
    assert (found(delays), delays.seconds) == ({bound: 3}, 3 * seconds)


def test_entries_count_when_they_are_durable_and_again_when_they_are_applied():
    traffic = SessionTraffic()
    traffic.sent(10, 4, 0)
    traffic.sent(20, 2, 1 * SECOND)
    traffic.acknowledged(10, 0, 2 * SECOND)
    assert (found(traffic.facts.to_sink), found(traffic.facts.to_applied)) == ({2.5: 4}, {})
    traffic.acknowledged(20, 10, 4 * SECOND)
    assert (found(traffic.facts.to_sink), found(traffic.facts.to_applied)) == ({2.5: 4, 5.0: 2}, {5.0: 4})
    traffic.acknowledged(20, 20, 11 * SECOND)
    assert found(traffic.facts.to_applied) == {5.0: 4, 15.0: 2}


def test_a_planned_change_is_no_reconnect_and_its_second_try_is_one():
    traffic = SessionTraffic()
    traffic.negotiated()
    traffic.plan_change()
    traffic.negotiated()
    assert traffic.facts.reconnects == 0
    traffic.negotiated()
    assert traffic.facts.reconnects == 1


def test_entries_that_are_sent_again_count_once():
    traffic = SessionTraffic()
    traffic.sent(10, 4, 0)
    traffic.begin()
    traffic.sent(10, 4, 0)
    traffic.acknowledged(10, 10, SECOND)
    traffic.acknowledged(10, 10, SECOND)
    assert (found(traffic.facts.to_sink), found(traffic.facts.to_applied)) == ({1.0: 4}, {1.0: 4})


def test_a_frame_without_entries_counts_nothing():
    traffic = SessionTraffic()
    traffic.sent(10, 0, 0)
    traffic.acknowledged(10, 10, SECOND)
    assert traffic.facts.to_sink == traffic.facts.to_applied == Delays()


def test_a_clock_that_goes_back_gives_no_negative_delay():
    traffic = SessionTraffic()
    traffic.sent(10, 1, 5 * SECOND)
    traffic.acknowledged(10, 10, SECOND)
    assert traffic.facts.to_sink.seconds == 0


def test_a_subscriber_that_stands_still_takes_no_memory_and_all_entries_count_in_the_end():
    traffic = SessionTraffic()
    for number in range(1, 10_001):
        traffic.sent(number, 1, 0)
        traffic.acknowledged(number, 0, SECOND)
    assert len(traffic._waiting) < 1_000
    traffic.acknowledged(10_000, 10_000, 2 * SECOND)
    assert found(traffic.facts.to_applied) == {2.5: 10_000}


def test_entries_that_a_rollback_has_undone_never_count_as_applied():
    traffic = SessionTraffic()
    traffic.sent(10, 4, 0)
    traffic.sent(20, 4, 0)
    traffic.acknowledged(10, 0, SECOND)
    traffic.forget()
    traffic.acknowledged(20, 20, 99 * SECOND)
    assert (found(traffic.facts.to_sink), found(traffic.facts.to_applied)) == ({1.0: 4}, {})


def test_the_first_negotiation_is_no_reconnect():
    traffic = SessionTraffic()
    assert traffic.facts.reconnects == 0
    for expected in (0, 1, 2):
        traffic.negotiated()
        assert traffic.facts.reconnects == expected


def test_the_counts_of_a_session_outlive_the_session():
    traffic = Traffic()
    traffic.of(OWED).add_bytes(5)
    traffic.of(OWED).add_bytes(6)
    assert {owed: facts.sent_bytes for owed, facts in traffic.facts.items()} == {OWED: 11}

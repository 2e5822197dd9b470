"""Entries for destinations that are no peers: when they are dropped, and how they are counted."""

from collections.abc import Sequence

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from lr_client.sender import RoutingQueueSenderClient
from queues.browse.unknown import unknown_destinations
from queues.clock import now_us
from queues.database.tables.sessions import sessions
from queues.database.tables.ticks import ticks
from queues.names import ClientName, SiteId
from queues.send_log import unknown
from queues.send_log.known_sites import KnownSites, read_known, record_known
from queues.send_log.port import Retention, SessionKey, TrimResult
from queues.send_log.sessions import add_session
from queues.send_log.trim_plan import Fate, plan
from queues.states import SessionState
from tests.queues.reading import Reader

POLICY = ClientName("policy")
TOKYO, LIMA, TYPO = (SessionKey(POLICY, SiteId(name)) for name in ("tokyo", "lima", "tokio"))
PEERS = frozenset({TOKYO.destination})
#: The time of unknown destinations is over at once, the one of peers is not.
AT_ONCE = Retention(unknown_seconds=-1.0, peers=PEERS)


def write(site: Engine, *payloads: bytes, to: Sequence[str]) -> None:
    with Session(site) as session, session.begin():
        for payload in payloads:
            RoutingQueueSenderClient("policy").transmit_log_entry_message(session, payload, to)


def begin_session(site: Engine, owed: SessionKey, acked_seq: int, state: SessionState, updated_us: int = 0) -> None:
    with site.begin() as connection:
        add_session(connection, owed, state, "")
        connection.execute(
            update(sessions)
            .where(sessions.c.destination == owed.destination)
            .values(acked_seq=acked_seq, updated_us=updated_us or sessions.c.updated_us)
        )


def close_segment(reader: Reader) -> None:
    reader.drain()
    assert reader.rotate()


def trim(reader: Reader, retention: Retention = AT_ONCE) -> TrimResult:
    return reader.trim(retention)


def counts(site: Engine) -> dict[SessionKey, int]:
    with site.connect() as connection:
        return unknown.read_dropped(connection)


def test_entries_that_only_unknown_destinations_lack_are_dropped_and_counted(site: Engine, reader: Reader) -> None:
    write(site, b"1", b"2", to=["tokyo", "tokio"])
    close_segment(reader)
    begin_session(site, TOKYO, 2, SessionState.LOG_ENTRY_SYNC)
    assert trim(reader, Retention(peers=PEERS)).emptied_segments == 0, "its own time is not over"
    trimmed = trim(reader)
    assert (trimmed.emptied_segments, trimmed.laggards, dict(trimmed.dropped_unknown)) == (1, (), {TYPO: 2})
    assert counts(site) == {TYPO: 2}
    write(site, b"3", to=["tokio"])
    close_segment(reader)
    assert trim(reader).dropped_unknown == {TYPO: 1}
    assert counts(site) == {TYPO: 3}


def test_the_claim_of_a_peer_keeps_the_segment_with_or_without_a_session(site: Engine, reader: Reader) -> None:
    write(site, b"1", to=["tokyo", "tokio"])
    close_segment(reader)
    assert trim(reader).emptied_segments == 0
    begin_session(site, TOKYO, 0, SessionState.BACKING_OFF)
    assert trim(reader).emptied_segments == 0
    assert counts(site) == {}


def test_without_a_list_of_peers_no_destination_is_unknown(site: Engine, reader: Reader) -> None:
    write(site, b"1", to=["tokio"])
    close_segment(reader)
    assert trim(reader, Retention(unknown_seconds=-1.0)).emptied_segments == 0


def test_an_entry_in_two_segments_of_one_tick_is_counted_once(site: Engine, reader: Reader) -> None:
    write(site, b"1", to=["tokio"])
    reader.drain()
    write(site, b"2", to=["tokio"])
    # The second tick comes after the rotation, so it covers entries of both segments.
    assert reader.rotate()
    write(site, b"3", to=["tokio"])
    reader.drain()
    assert trim(reader).emptied_segments == 1
    assert reader.rotate()
    assert trim(reader).emptied_segments == 1
    assert counts(site) == {TYPO: 3}


def test_the_time_of_a_removed_site_begins_with_its_removal(site: Engine, reader: Reader) -> None:
    write(site, b"acknowledged", to=["lima"])
    reader.drain()
    write(site, b"1", b"2", to=["lima"])
    close_segment(reader)
    begin_session(site, LIMA, 1, SessionState.INACTIVE)
    with site.begin() as connection:
        connection.execute(update(ticks).values(created_us=now_us() - 3_600_000_000))
    # The entries are old, and the removal is new.
    assert trim(reader, Retention(unknown_seconds=60.0, peers=PEERS)).emptied_segments == 0
    with site.begin() as connection:
        connection.execute(update(sessions).values(updated_us=1))
    trimmed = trim(reader)
    assert (trimmed.laggards, dict(trimmed.dropped_unknown)) == ((LIMA,), {LIMA: 2})
    with site.connect() as connection:
        assert connection.execute(select(sessions.c.lost_seq)).scalar_one() == 3


def test_a_session_that_still_runs_is_never_unknown(site: Engine, reader: Reader) -> None:
    write(site, b"1", to=["lima"])
    close_segment(reader)
    begin_session(site, LIMA, 0, SessionState.BACKING_OFF, updated_us=1)
    assert trim(reader).emptied_segments == 0


def test_the_plan_names_unknown_destinations(site: Engine, reader: Reader) -> None:
    write(site, b"1", to=["tokio"])
    close_segment(reader)
    (kept,), (lost,) = plan(site, Retention(peers=PEERS)), plan(site, AT_ONCE)
    assert (kept.fate, kept.lacking, kept.unknown) == (Fate.KEPT, (), (TYPO,))
    assert (lost.fate, lost.unknown) == (Fate.LOST, (TYPO,))


def test_counts_beyond_the_limit_share_one_row(site: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown, "MOST_COUNTED", 2)
    lost = {SessionKey(POLICY, SiteId(f"typo-{number}")): 1 for number in range(5)}
    with site.begin() as connection:
        unknown.record_dropped(connection, lost)
        unknown.record_dropped(connection, lost)
        found = unknown.read_dropped(connection)
        assert list(found.values()) == [6, 2, 2]
        assert next(iter(found)) == (POLICY, unknown.OTHERS)
        assert unknown.forget_dropped(connection) == 10
        assert unknown.read_dropped(connection) == {}


# --- the report -----------------------------------------------------------------------------------------------


def told(site: Engine) -> dict[SessionKey, tuple[int, int, bool]]:
    with site.connect() as connection:
        found = unknown_destinations(connection)
    assert all(bool(each.oldest_us) == bool(each.waiting.entries) for each in found)
    return {each.owed: (each.waiting.entries, each.dropped, each.is_peer) for each in found}


def record(site: Engine, *peers: str) -> None:
    with site.begin() as connection:
        record_known(connection, KnownSites(frozenset(map(SiteId, peers))))


def test_waiting_and_dropped_entries_are_told_for_destinations_that_are_no_peers(site: Engine, reader: Reader) -> None:
    write(site, b"1", to=["tokyo", "tokio"])
    write(site, b"2", to=["tokio"])
    close_segment(reader)
    assert told(site) == {}, "no server has recorded its peers"
    record(site, "tokyo")
    assert told(site) == {TYPO: (2, 0, False)}
    begin_session(site, TOKYO, 2, SessionState.LOG_ENTRY_SYNC)
    trim(reader)
    assert told(site) == {TYPO: (0, 2, False)}
    record(site, "tokyo", "tokio")
    assert told(site) == {TYPO: (0, 2, True)}


def test_of_a_removed_site_only_the_entries_that_it_lacks_are_told(site: Engine, reader: Reader) -> None:
    record(site, "tokyo")
    write(site, b"1", to=["lima"])
    reader.drain()
    begin_session(site, LIMA, 1, SessionState.INACTIVE)
    assert told(site) == {}
    write(site, b"2", to=["lima"])
    reader.drain()
    assert told(site) == {LIMA: (1, 0, False)}


def test_a_name_that_no_entry_in_the_log_has_is_not_told(site: Engine, reader: Reader) -> None:
    record(site, "tokyo")
    for _ in range(2):  # a set that occurs in two ticks stays in the dictionary
        write(site, b"1", to=["tokio"])
        reader.drain()
    assert reader.rotate()
    trim(reader)
    with site.begin() as connection:
        unknown.forget_dropped(connection)
    assert told(site) == {}


def test_the_record_of_the_known_sites_is_read_as_written(site: Engine) -> None:
    with site.begin() as connection:
        assert read_known(connection) is None
        for known in (
            KnownSites(frozenset()),
            KnownSites(frozenset({SiteId("lima"), SiteId("tokyo")}), frozenset({POLICY}), known_only=True),
        ):
            record_known(connection, known)
            assert read_known(connection) == known
            assert known.has_client(POLICY)
        assert not known.has_client(ClientName("tenant"))

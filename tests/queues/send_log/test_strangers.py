"""A log is whole for a destination until an entry for it is trimmed, with or without a session."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import Engine, select, update

from queues.database.tables.destinations import strangers
from queues.database.tables.log import log_head
from queues.database.tables.sessions import sessions
from queues.names import ClientName, SiteId
from queues.send_log import strangers as record
from queues.send_log.port import Retention, SessionKey
from queues.states import SessionState
from tests.queues.reading import Reader
from tests.queues.send_log.test_unknown import AT_ONCE, TYPO, begin_session, close_segment, trim, write

TOKYO, LIMA, OSLO = (SessionKey(ClientName("policy"), SiteId(name)) for name in ("tokyo", "lima", "oslo"))
#: Every segment is beyond retention.
NOTHING_KEPT = replace(AT_ONCE, seconds=-1.0)


def whole(site: Engine, *keys: SessionKey) -> list[SessionKey]:
    with site.connect() as connection:
        return [key for key in keys if record.is_whole(connection, key)]


def trimmed(site: Engine, reader: Reader, *to: str, retention: Retention = AT_ONCE) -> None:
    """Write one entry and trim it."""
    write(site, b"1", to=to)
    close_segment(reader)
    assert trim(reader, retention).emptied_segments == 1


def test_an_untrimmed_log_is_whole_for_every_site(site: Engine, reader: Reader) -> None:
    assert whole(site, TOKYO, LIMA) == [TOKYO, LIMA]
    write(site, b"1", to=["tokyo"])
    begin_session(site, TOKYO, 1, SessionState.LOG_ENTRY_SYNC)
    close_segment(reader)
    assert whole(site, TOKYO, LIMA) == [TOKYO, LIMA]


def test_a_trimmed_log_stays_whole_for_sites_that_no_trimmed_entry_named(site: Engine, reader: Reader) -> None:
    begin_session(site, TOKYO, 1, SessionState.LOG_ENTRY_SYNC)
    trimmed(site, reader, "tokyo")
    assert whole(site, TOKYO, LIMA) == [LIMA]
    begin_session(site, LIMA, 0, SessionState.IDLE)
    write(site, b"2", to=["lima"])
    close_segment(reader)
    assert whole(site, LIMA) == [LIMA]


@pytest.mark.parametrize(("to", "retention"), [("tokio", AT_ONCE), ("tokyo", NOTHING_KEPT)], ids=["unknown", "peer"])
def test_a_destination_without_a_session_is_remembered_as_a_stranger(
    site: Engine, reader: Reader, to: str, retention: Retention
) -> None:
    key = SessionKey(ClientName("policy"), SiteId(to))
    trimmed(site, reader, to, retention=retention)
    assert whole(site, key, OSLO) == [OSLO]
    begin_session(site, key, 0, SessionState.IDLE)
    assert whole(site, key, OSLO) == [OSLO]
    trimmed(site, reader, "oslo", retention=NOTHING_KEPT)
    assert whole(site, key, OSLO, LIMA) == [LIMA]


def test_a_session_that_lost_entries_has_no_whole_log(site: Engine, reader: Reader) -> None:
    begin_session(site, LIMA, 0, SessionState.BACKING_OFF)
    trimmed(site, reader, "lima", retention=NOTHING_KEPT)
    assert whole(site, LIMA, OSLO) == [OSLO]
    with site.connect() as connection:
        assert connection.execute(select(strangers)).all() == []


def test_an_earlier_version_that_trims_leaves_no_site_with_a_whole_log(site: Engine, reader: Reader) -> None:
    trimmed(site, reader, "tokio")
    with site.begin() as connection:
        connection.execute(update(log_head).values(trimmed_seq=log_head.c.trimmed_seq + 1))
    assert whole(site, OSLO) == []
    with site.begin() as connection:
        record.record_strangers(connection, [], 99)
        connection.execute(update(log_head).values(trimmed_seq=99))
    assert whole(site, OSLO) == []


def test_beyond_a_limit_every_site_counts_as_a_stranger(site: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MOST_RECORDED", 2)

    def lose(*keys: SessionKey) -> Sequence[object]:
        with site.begin() as connection:
            record.record_strangers(connection, keys, 1)
            connection.execute(update(log_head).values(trimmed_seq=1))
            return connection.execute(select(strangers.c.destination)).scalars().all()

    assert len(lose(TYPO, LIMA)) == len(lose(LIMA)) == 2
    assert whole(site, OSLO) == [OSLO]
    assert len(lose(TOKYO)) == len(lose(TYPO, TOKYO)) == 3
    assert whole(site, OSLO) == []


def test_the_acknowledgement_of_a_reset_session_still_counts(site: Engine, reader: Reader) -> None:
    begin_session(site, TOKYO, 1, SessionState.LOG_ENTRY_SYNC)
    trimmed(site, reader, "tokyo")
    with site.begin() as connection:
        connection.execute(update(sessions).values(acked_seq=0, lost_seq=1))
    assert whole(site, TOKYO) == []

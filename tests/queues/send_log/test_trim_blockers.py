"""The transactions that keep trim from tables of the log are told with the SQL that ends them."""

import pytest
from sqlalchemy import Connection, Engine, text

from queues.send_log.opening import segment_reads
from queues.send_log.postgresql import trim_blockers
from queues.send_log.trim_blockers import LONG_SECONDS, TrimBlocker, long_ones
from tests.queues.reading import Reader
from tests.queues.send_log.test_prepared import preparing
from tests.queues.send_log.transmitting import acknowledge, client, transmit

__all__ = ["preparing"]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim_blockers, "_SECONDS", 0)


def told(engine: Engine) -> list[TrimBlocker]:
    with engine.connect() as connection:
        return list(segment_reads(connection).blockers(connection))


def number(connection: Connection) -> int:
    return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_run_of_trim_tells_the_transaction_that_reads_an_old_segment_and_its_end_lets_the_segment_go(
    site: Engine, reader: Reader
) -> None:
    transmit(site, b"1")
    reader.drain()
    acknowledge(site, "tokyo", 1)
    assert reader.rotate()
    with site.connect() as other:
        other.execute(text("SET LOCAL application_name = 'the dump'"))
        assert other.execute(text("SELECT count(*) FROM lrq_log_entries")).scalar_one() == 1
        trimmed = reader.trim()
        assert trimmed.emptied_segments == 0
        (found,) = trimmed.blockers
        assert found.name == f"process {number(other)} (the dump)"
        with site.connect() as person:
            # The wait ends once the process is gone, and so are its locks.
            assert person.execute(text(found.ending.replace(")", ", 30000)"))).scalar_one()
        other.invalidate()
    after = reader.trim()
    assert (after.emptied_segments, after.blockers) == (1, ())


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_transaction_that_uses_no_table_of_the_log_is_not_told(site: Engine) -> None:
    with site.connect() as other:
        other.execute(text("SELECT txid_current(), count(*) FROM lrq_sessions"))
        assert told(site) == []
        other.execute(text("SELECT 1 FROM lrq_log_entries_3"))
        assert [each.name.split()[:2] for each in told(site)] == [["process", str(number(other))]]


def test_a_log_of_sqlite_knows_no_such_transactions(site: Engine) -> None:
    assert told(site) == []


@pytest.mark.postgresql
def test_a_prepared_transaction_that_has_transmitted_is_told_with_its_name(preparing: Engine) -> None:
    with preparing.connect() as connection:
        client.transmit_log_entry_message(connection, b"1", ["tokyo"])
        connection.exec_driver_sql("PREPARE TRANSACTION 'the mover''s'")
        connection.rollback()
    (found,) = told(preparing)
    assert found.name == "the prepared transaction 'the mover''s'"
    with preparing.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(found.ending.partition(",")[0]))
    assert told(preparing) == []


def test_only_a_known_age_beyond_a_usual_backup_is_long() -> None:
    ages = (None, 0.0, LONG_SECONDS - 1, LONG_SECONDS)
    assert [each.seconds for each in long_ones(TrimBlocker("a", "b", age) for age in ages)] == [LONG_SECONDS]

"""On PostgreSQL a command that only reads ends with a sentence if another session keeps a table locked."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, text

from lrq.cli import reader_place
from lrq.cli.place import opened
from lrq.cli.reader_place import opened_to_read
from queues.database.transactions import reading
from tests.lrq.cli.command import Command

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


@contextmanager
def locked(site: Engine, table: str) -> Iterator[None]:
    """Lock *table* during the block, but at most for 60 seconds, so that no command waits for ever."""
    with site.connect() as connection, connection.begin():
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = '60s'"))
        connection.execute(text(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
        yield


def url_of(site: Engine) -> str:
    return site.url.render_as_string(hide_password=False)


@pytest.mark.parametrize(
    ("command", "table"),
    [
        ("status", "lrq_sessions"),
        ("top --once", "lrq_sessions"),
        ("browse", "lrq_ticks_0"),
        ("link list", "lrq_link_wishes"),
        ("park list", "lrq_parked_entries"),
        ("park show 1", "lrq_parked_entries"),
        ("park blocked policy oslo", "lrq_receive_queues"),
        ("snapshot list", "lrq_snapshots"),
        ("replica list", "lrq_replicas"),
        ("replay list", "lrq_replays"),
        ("resend list", "lrq_resends"),
        ("fence list", "lrq_receive_queues"),
        ("peer list", "lrq_servers"),
        ("status", "lrq_site"),
        ("drain --timeout 1", "lrq_sessions"),
        ("snapshot watch no-such-id", "lrq_snapshots"),
        ("trim --dry-run", "lrq_sessions"),
        ("trim --dry-run", "lrq_log_entries_0"),
    ],
)
def test_a_command_that_reads_a_locked_table_ends_and_says_how_to_find_the_other_session(
    lrq: Command, site: Engine, command: str, table: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reader_place, "LOCK_SECONDS", 1)
    with locked(site, table):
        done = lrq(*command.split(), "--database", url_of(site))
        sql = done.error.split('"')[1]
        with site.connect() as connection:
            found = connection.execute(text(sql.replace("::", r"\:\:"))).all()
    assert (done.code, done.out) == (1, "")
    assert done.error.startswith("another session has kept a table of lrq locked for 1 s: find its pid with")
    assert table in [row.relation for row in found]


def test_only_reading_commands_have_the_limit_and_no_connection_keeps_it(site: Engine):
    with opened_to_read(None, url_of(site), None) as here:
        with reading(here.engine) as connection:
            assert connection.execute(text("SHOW lock_timeout")).scalar() == "10s"
        driver = here.engine.raw_connection()
        assert driver.cursor().execute("SHOW lock_timeout").fetchone() == ("0",)
        driver.close()
    with opened(None, url_of(site), None) as here, reading(here.engine) as connection:
        assert connection.execute(text("SHOW lock_timeout")).scalar() == "0"

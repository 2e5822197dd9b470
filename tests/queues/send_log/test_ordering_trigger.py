"""The ordering trigger fires in every session; rows with the id of another transaction take no place."""

import importlib.util
import re
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, text

import queues
from lr_client import RoutingQueueSenderClient
from queues.database import migrations, schema
from queues.errors import SchemaMismatchError
from tests.queues.reading import Reader
from tests.queues.unordered import migrate_to, triggered, write_as_before

MIGRATION = Path(__file__).parents[3] / "alembic" / "versions" / "0003_always.py"
COPY_A_ROW = text(
    "INSERT INTO lrq_log_entries (slot, xid, client, tag_set, created_us, payload) "
    "VALUES (0, :xid, 'policy', 1, 0, 'c')"
)
STATES = text(
    "SELECT tgrelid::regclass::text AS name, tgenabled FROM pg_trigger "
    "WHERE tgname = 'lrq_sequence_commit' AND tgrelid::regclass::text LIKE 'lrq_log_entries%' ORDER BY 1"
)


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def send(connection: Connection, payload: bytes, client: str = "policy") -> None:
    RoutingQueueSenderClient(client).transmit_log_entry_message(connection, payload, ["tokyo"])


def be_a_replica(connection: Connection, scope: str = "") -> None:
    connection.execute(text(f"SET {scope} session_replication_role = replica"))


def places(site: Engine) -> list[int]:
    with site.connect() as connection:
        return list(connection.execute(text("SELECT xid FROM lrq_log_commits ORDER BY commit_seq")).scalars())


def payloads(reader: Reader) -> list[bytes]:
    return [row.payload for row in reader.drain()]


@pytest.mark.parametrize("scope", ["", "LOCAL"])
def test_entries_of_a_replica_session_are_delivered_in_the_order_of_commits(
    site: Engine, reader: Reader, scope: str
) -> None:
    with site.connect() as replica, site.connect() as other:
        be_a_replica(replica, scope)
        send(replica, b"third")
        send(other, b"first", client="billing")
        other.commit()
        send(other, b"second")
        other.commit()
        with replica.begin_nested():
            send(replica, b"fourth", client="billing")
        undone = replica.begin_nested()
        send(replica, b"undone")
        undone.rollback()
        send(replica, b"fifth")
        replica.commit()
        if scope == "LOCAL":
            be_a_replica(replica, scope)
        send(replica, b"sixth")
        replica.commit()
    assert payloads(reader) == [b"first", b"second", b"third", b"fourth", b"fifth", b"sixth"]


def test_every_segment_has_the_trigger_also_after_it_is_emptied(site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("TRUNCATE lrq_log_entries_0, lrq_log_commits_0"))
        found = {row.name: row.tgenabled for row in connection.execute(STATES)}
        tables = triggered(connection)
    assert found == dict.fromkeys([*tables, *(f"lrq_log_entries_{slot}" for slot in range(8))], "A")


def test_a_copied_row_takes_no_place_and_hides_no_entry_of_its_transaction(site: Engine, reader: Reader) -> None:
    with site.begin() as connection:
        connection.execute(COPY_A_ROW, {"xid": 3})
        connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
        send(connection, b"own")
        connection.execute(COPY_A_ROW, {"xid": 3})
        own = connection.execute(text("SELECT pg_current_xact_id()::text::bigint")).scalar_one()
    assert places(site) == [own]
    assert payloads(reader) == [b"own"]


def test_a_copied_log_keeps_the_places_of_its_commits(site: Engine) -> None:
    with site.begin() as connection:
        be_a_replica(connection, "LOCAL")
        connection.execute(COPY_A_ROW, {"xid": 3})
        connection.execute(text("INSERT INTO lrq_log_commits VALUES (0, 3, 1, 0)"))
    assert places(site) == [3]


def test_a_transaction_that_outlives_its_segment_takes_its_place_in_the_newer_segment(site: Engine) -> None:
    with site.begin() as connection:
        send(connection, b"1")
        connection.execute(text("SELECT nextval('lrq_log_segment')"))
    with site.connect() as connection:
        assert connection.execute(text("SELECT slot FROM lrq_log_commits")).scalars().all() == [1]


def test_an_older_database_is_upgraded_and_downgraded_to_its_former_state(site: Engine, reader: Reader) -> None:
    body = text("SELECT prosrc FROM pg_proc WHERE proname = 'lrq_sequence_commit'")
    migrate_to(site, "0001")
    migrate_to(site, "0002")
    with site.connect() as connection:
        before = connection.execute(body).scalar_one(), connection.execute(STATES).all()
    with site.begin() as connection:
        write_as_before(connection, b"old")
    migrate_to(site, schema.SCHEMA)
    with site.begin() as connection:
        be_a_replica(connection, "LOCAL")
        send(connection, b"new")
    assert payloads(reader) == [b"old", b"new"]
    migrate_to(site, "0002")
    with site.connect() as connection:
        assert (connection.execute(body).scalar_one(), connection.execute(STATES).all()) == before


def test_segments_get_their_own_triggers_if_the_copied_triggers_cannot_be_changed(site: Engine, reader: Reader) -> None:
    spec = importlib.util.spec_from_file_location("always", MIGRATION)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    migrate_to(site, "0002")
    migrate_to(site, schema.SCHEMA)
    with site.begin() as connection:
        if triggered(connection) == ["lrq_log_entries"]:
            connection.execute(text(re.sub(r"< 150000", "< 990000", module.OWN_TRIGGERS)))
    queues.initialize(site, site_id="paris")
    migrations.check(site)
    with site.begin() as connection:
        be_a_replica(connection, "LOCAL")
        send(connection, b"1")
    assert payloads(reader) == [b"1"]
    migrate_to(site, "0002")
    queues.initialize(site, site_id="paris")
    migrations.check(site)


@pytest.mark.parametrize("segment", ["lrq_log_entries", "lrq_log_entries_3"])
def test_check_notices_a_trigger_that_does_not_fire_always(site: Engine, segment: str) -> None:
    with site.begin() as connection:
        for table in triggered(connection) if segment == "lrq_log_entries" else [segment]:
            connection.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER ALL"))
            connection.execute(text(f"ALTER TABLE {table} ENABLE TRIGGER ALL"))
    with pytest.raises(SchemaMismatchError, match=r"firing ALWAYS, on .*lrq_log_entries_3"):
        migrations.check(site)

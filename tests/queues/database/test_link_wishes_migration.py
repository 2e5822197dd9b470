"""Migration 0027 gives the view of links its name; wishes, rights and refusals stay the same, up and down."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import DBAPIError

import queues
from queues.database import grants, schema
from queues.database.grantees import Grantee
from queues.errors import SchemaMismatchError
from tests.lrq.cli.source import SourceSite
from tests.queues.unordered import migrate_to
from tests.system import roles
from tests.waiting import eventually

only_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
WISHES = [("policy", "lima", "ended", 7, 9), ("policy", "oslo", "draining", 8, 0)]
TRANSMIT = {
    "sqlite": "INSERT INTO lrq_transmit (client, payload, destinations) VALUES ('policy', x'01', 'rome,{to}')",
    "postgresql": "SELECT lrq_transmit('policy', 'x'::bytea, ARRAY['rome', '{to}'])",
}


@pytest.fixture
def old(site: Engine) -> Engine:
    """A site of schema 0026 with a session and with two wishes; no session belongs to them."""
    SourceSite(site).session("tokyo", 7)
    migrate_to(site, "0026")
    with site.begin() as connection:
        for wish in WISHES:
            connection.execute(text(f"INSERT INTO lrq_links VALUES {wish}"))
    return site


def rows(engine: Engine, statement: str) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


def wishes(engine: Engine, table: str) -> list[tuple[Any, ...]]:
    return rows(engine, f"SELECT client, destination, wish, asked_us, ended_us FROM {table} ORDER BY destination")


def links(engine: Engine, view: str) -> list[tuple[Any, ...]]:
    return rows(engine, f"SELECT destination, wish, state, acked_seq FROM {view} ORDER BY destination")


def times(engine: Engine, view: str) -> list[tuple[Any, ...]]:
    return rows(engine, f"SELECT updated_at, asked_at, ended_at FROM {view} ORDER BY destination")


def test_wishes_and_links_stay_the_same_up_and_down(old: Engine) -> None:
    before, moments = links(old, "lrq_link_states"), times(old, "lrq_link_states")
    assert [row[:3] for row in before] == [
        ("lima", "ended", "none"),
        ("oslo", "draining", "none"),
        ("tokyo", "running", "log-entry sync"),
    ]
    migrate_to(old, "0027")
    assert wishes(old, "lrq_link_wishes") == WISHES
    assert (links(old, "lrq_links"), times(old, "lrq_links")) == (before, moments)
    assert not inspect(old).has_table("lrq_link_states")
    migrate_to(old, "0026")
    assert wishes(old, "lrq_links") == WISHES
    assert (links(old, "lrq_link_states"), times(old, "lrq_link_states")) == (before, moments)
    assert not inspect(old).has_table("lrq_link_wishes")


def test_the_key_is_named_after_its_table(old: Engine) -> None:
    for schema_number, table in (("0027", "lrq_link_wishes"), ("0026", "lrq_links")):
        migrate_to(old, schema_number)
        key = inspect(old).get_pk_constraint(table)
        assert (key["name"], key["constrained_columns"]) == (f"pk_{table}", ["client", "destination"])


@pytest.mark.parametrize("way", [["0027"], ["0027", "0026"], ["0027", "0026", "0027"]], ids=" ".join)
def test_an_entry_from_sql_for_an_ended_link_is_refused_after_a_migration(
    old: Engine, dialect: str, way: list[str]
) -> None:
    for schema_number in way:
        migrate_to(old, schema_number)
    for to in ("lima", "oslo"):
        with pytest.raises(DBAPIError, match="has ended: leave the site out"), old.begin() as connection:
            connection.execute(text(TRANSMIT[dialect].format(to=to)))
    with old.begin() as connection:
        connection.execute(text(TRANSMIT[dialect].format(to="tokyo")))


def test_transmit_from_sql_needs_the_table_and_not_the_view(old: Engine, dialect: str) -> None:
    migrate_to(old, "0027")
    with old.begin() as connection:
        connection.execute(text("DROP VIEW lrq_links"))
        connection.execute(text(TRANSMIT[dialect].format(to="tokyo")))
    with pytest.raises(DBAPIError, match="has ended: leave the site out"), old.begin() as connection:
        connection.execute(text(TRANSMIT[dialect].format(to="lima")))


def test_a_version_before_is_refused_with_the_cure(site: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "SCHEMA", "0026")
    cure = r"the tables have schema \d+, newer than this lrq's 0026: upgrade lrq"
    with pytest.raises(SchemaMismatchError, match=cure):
        schema.require(site)
    migrate_to(site, "0026")
    assert schema.require(site).site_id == "paris"
    migrate_to(site, "0027")
    with pytest.raises(SchemaMismatchError, match=cure):
        schema.require(site)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_broken_view_of_the_application_stops_no_migration(old: Engine) -> None:
    with old.begin() as connection:
        connection.execute(text("CREATE VIEW broken AS SELECT * FROM gone"))
    queues.initialize(old, site_id="paris")
    assert wishes(old, "lrq_link_wishes") == WISHES


# --------------------------------------------------------------------------------------------- PostgreSQL


def refused(engine: Engine, name: str) -> None:
    with pytest.raises(DBAPIError, match=f"permission denied for (table|view) {name}"):
        rows(engine, f"SELECT * FROM {name}")


@only_postgresql
def test_a_monitor_reads_the_renamed_view_and_not_the_table(old: Engine) -> None:
    with roles.new_role(old) as role, roles.engine_of(old, role) as engine:
        with old.begin() as connection:
            connection.execute(text(f"GRANT SELECT ON lrq_lag, lrq_link_states TO {roles.quote(role)}"))
        migrate_to(old, "0027")
        assert len(links(engine, "lrq_links")) == 3
        refused(engine, "lrq_link_wishes")
        migrate_to(old, "0026")
        assert len(links(engine, "lrq_link_states")) == 3
        refused(engine, "lrq_links")


@only_postgresql
def test_a_reader_of_the_table_reads_the_renamed_table_and_not_the_view(old: Engine) -> None:
    with roles.new_role(old) as role, roles.engine_of(old, role) as engine:
        with old.begin() as connection:
            connection.execute(text(f"GRANT SELECT ON lrq_links TO {roles.quote(role)}"))
        migrate_to(old, "0027")
        assert wishes(engine, "lrq_link_wishes") == WISHES
        refused(engine, "lrq_links")
        migrate_to(old, "0026")
        assert wishes(engine, "lrq_links") == WISHES
        refused(engine, "lrq_link_states")


@only_postgresql
def test_a_sender_transmits_from_sql_with_its_rights_of_before(site: Engine, dialect: str) -> None:
    call = text(TRANSMIT[dialect].format(to="tokyo"))
    with roles.new_role(site) as role, roles.engine_of(site, role) as engine:
        grants.grant(site, role, Grantee.SENDER)
        for schema_number in ("0026", "0027"):
            migrate_to(site, schema_number)
            with engine.begin() as connection:
                assert connection.execute(call).scalar_one()


@only_postgresql
def test_a_changed_function_is_named_and_nothing_is_renamed(old: Engine) -> None:
    with old.begin() as connection:
        made = "RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'"
        connection.execute(text(f"CREATE OR REPLACE FUNCTION lrq_check_links(client text, destinations text[]) {made}"))
    with pytest.raises(DBAPIError, match="lrq_check_links is not the function of lrq: restore it"):
        migrate_to(old, "0027")
    assert wishes(old, "lrq_links") == WISHES


@only_postgresql
def test_the_view_is_locked_before_its_table_as_readers_do(old: Engine) -> None:
    order = (
        "SELECT 1 FROM pg_locks waits JOIN pg_locks holds ON holds.pid = waits.pid "
        "WHERE NOT waits.granted AND waits.relation = 'lrq_links'::regclass "
        "AND holds.granted AND holds.relation = 'lrq_link_states'::regclass AND holds.mode = 'AccessExclusiveLock'"
    )
    with old.connect() as holder, ThreadPoolExecutor(1) as threads:
        holder.execute(text("LOCK TABLE lrq_links IN ACCESS SHARE MODE"))
        migration = threads.submit(queues.initialize, old, site_id="paris")
        eventually(lambda: rows(old, order))
        holder.rollback()
        assert migration.result().site_id == "paris"

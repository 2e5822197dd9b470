"""Roles of PostgreSQL with the rights of `lrq grant`, and no others, do their work."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from sqlalchemy import Engine, NullPool, create_engine, exc, text

import queues
from lr_client import RoutingQueueSenderClient
from lr_client.snapshot.cut import connect_at, open_cut
from lr_server import LogReplicationServer
from queues.database import grants, migrations
from queues.database.grantees import Grantee
from queues.database.postgresql.truncation import lock
from queues.database.tables.rewritten import REWRITTEN, REWRITTEN_UNKEPT
from queues.destinations import destination_set
from queues.errors import ConfigurationError
from queues.names import ClientName
from queues.send_log.epochs import store_epoch
from queues.send_log.outbox import NewEntry
from queues.send_log.staging import Epoch, PartStaging, forget_abandoned
from tests.conftest import NewSite
from tests.system import roles
from tests.system.world import Messages, World, in_log_sync
from tests.waiting import eventually


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[None, "lrq"], ids=["public", "own schema"])
def new_site(request: pytest.FixtureRequest, new_database: Callable[[], str]) -> Iterator[NewSite]:
    """Give a function that creates a site in a database in which PUBLIC has no right on schemas."""
    with ExitStack() as stack:

        def create(site_id: str) -> Engine:
            engine = queues.create_engine(new_database(), schema=request.param)
            stack.callback(engine.dispose)
            queues.initialize(engine, site_id=site_id)
            with engine.begin() as connection:
                connection.execute(text("REVOKE ALL ON SCHEMA public FROM PUBLIC"))
            return engine

        yield create


@pytest.fixture
def role(site: Engine) -> Iterator[str]:
    with roles.new_role(site) as name:
        yield name


@pytest.mark.long
def test_a_sender_transmits_waits_and_provides_snapshots(world: World):
    world.link("paris", "tokyo", initial_sync="log")
    heard = world.subscribe("tokyo")
    paris = world.site("paris")
    with roles.new_role(paris) as role:
        for _ in range(2):
            grants.grant(paris, role, Grantee.SENDER)
        with roles.engine_of(paris, role) as engine:
            roles.send(engine, heard)


@pytest.mark.long
def test_a_sender_provides_the_snapshot_of_a_log_without_a_tick(world: World):
    world.link("paris", "tokyo")
    heard = world.subscribe("tokyo")
    paris, client = world.site("paris"), RoutingQueueSenderClient("policy")
    with roles.new_role(paris) as role:
        grants.grant(paris, role, Grantee.SENDER)
        with (
            roles.engine_of(paris, role) as engine,
            closing(client.start_snapshot_transmitter(engine, Messages(lambda _: [b"state"]))),
        ):
            with engine.begin() as connection:
                client.request_snapshot_sync(connection, "tokyo")
            eventually(lambda: heard.snapshot("paris") == [b"state"])


@pytest.mark.long
def test_a_subscriber_applies_the_log_and_snapshots_and_parks(world: World):
    world.link("paris", "tokyo", initial_sync="log")
    world.provide("paris", Messages(lambda _: [b"state"]))
    tokyo = world.site("tokyo")
    world.transmit("tokyo", b"waiting", to=["oslo"])
    with roles.new_role(tokyo) as role:
        grants.grant(tokyo, role, Grantee.SUBSCRIBER)
        with roles.engine_of(tokyo, role) as engine:
            roles.receive(
                engine,
                lambda payload: world.transmit("paris", payload, to=["tokyo"]),
                lambda: world.request_snapshots("paris", "tokyo"),
            )


@pytest.mark.long
def test_a_server_that_does_not_own_the_tables_serves_both_roles_trims_and_rewrites(world: World):
    short = {"trim_seconds": 0.1, "segment_seconds": 0.1, "unknown_retention_seconds": 0.1}
    with ExitStack() as stack:
        servers = {}
        for name, peers in (("tokyo", {}), ("paris", {"tokyo": "local:tokyo"})):
            owner = world.site(name)
            role = stack.enter_context(roles.new_role(owner))
            grants.grant(owner, role, Grantee.SERVER)
            url = owner.url.set(username=role, password="secret").render_as_string(hide_password=False)
            settings = world.settings(name, database_url=url, listen=[], peers=peers, initial_sync="log", **short)
            servers[name] = stack.enter_context(LogReplicationServer(settings))
        world.provide("paris", Messages(lambda _: [b"state"]))
        tokyo = world.subscribe("tokyo")
        world.transmit("paris", b"1", to=["tokyo", "oslo"])
        eventually(lambda: tokyo.log("paris") == [b"1"])
        world.request_snapshots("paris")
        eventually(lambda: tokyo.snapshot("paris") == [b"state"])
        in_log_sync(servers["paris"], "tokyo")
        trimmed = servers["paris"].status()["log"]["trimmed_seq"]
        world.transmit("paris", b"2", to=["tokyo"])
        eventually(lambda: servers["paris"].status()["log"]["trimmed_seq"] > trimmed)
        for server in servers.values():
            assert server.status()["server"]["troubles"] == {}


#: The rights without which a first transmit fails at once.
NEEDED = [
    "SELECT ON lrq_site", "SELECT ON lrq_known_sites", "SELECT ON lrq_tag_sets",
    "INSERT ON lrq_log_entries", "SELECT (xid) ON lrq_log_entries", "SELECT (slot) ON lrq_log_entries",
    "SELECT (destinations) ON lrq_log_entries", "SELECT ON SEQUENCE lrq_log_segment",
]  # fmt: skip


@pytest.mark.long
def test_a_sender_needs_each_of_its_rights_and_the_error_names_the_command(site: Engine, role: str):
    client = RoutingQueueSenderClient("policy")

    def transmit() -> None:
        with roles.engine_of(site, role) as engine, engine.begin() as connection:
            client.transmit_log_entry_message(connection, b"1", ["tokyo"])

    grants.grant(site, role, Grantee.SENDER)
    transmit()
    for right in NEEDED:
        with site.begin() as connection:
            connection.execute(text(f"REVOKE {right} FROM {roles.quote(role)}"))
        with pytest.raises(ConfigurationError, match=r"permission denied .* run `lrq grant` as the tables' owner"):
            transmit()
        grants.grant(site, role, Grantee.SENDER)
    transmit()


def test_a_sender_stages_epochs_and_moves_them_into_the_log(site: Engine, role: str):
    grants.grant(site, role, Grantee.SENDER)
    client = ClientName("policy")
    epoch = Epoch(client, "spark query q", 1)
    with roles.engine_of(site, role) as engine:
        for _ in range(2):
            part = PartStaging(engine, epoch, block_rows=1)
            for payload in (b"1", b"2"):
                part.add(NewEntry(payload, destination_set(client, ["tokyo"])))
            store_epoch(engine, epoch, [part.finish()], rows_per_transaction=1)
        forget_abandoned(engine, seconds=-1)
    with site.connect() as connection:
        found = connection.execute(text("SELECT payload FROM lrq_log_entries ORDER BY id")).scalars()
        assert [bytes(payload) for payload in found] == [b"1", b"2"]


def test_a_sender_cannot_read_payloads_or_change_the_log(site: Engine, role: str):
    grants.grant(site, role, Grantee.SENDER)
    forbidden = (
        "SELECT payload FROM lrq_log_entries", "DELETE FROM lrq_log_entries", "UPDATE lrq_sessions SET acked_seq = 0",
        "TRUNCATE lrq_log_entries", "DROP TABLE lrq_site", "SELECT * FROM lrq_receive_blocks",
        "ALTER TABLE lrq_log_entries DISABLE TRIGGER ALL", "DELETE FROM lrq_snapshots",
    )  # fmt: skip
    with roles.engine_of(site, role) as engine:
        for statement in forbidden:
            with engine.connect() as connection, pytest.raises(Exception, match=r"permission denied|must be owner"):
                connection.execute(text(statement))


def test_row_level_security_leaves_no_row_out_of_a_cut_in_silence(site: Engine, role: str):
    grants.grant(site, role, Grantee.SENDER)
    statements = (
        "CREATE SCHEMA app", f"GRANT USAGE ON SCHEMA app TO {roles.quote(role)}", "CREATE TABLE app.rules (owner text)",
        "INSERT INTO app.rules VALUES ('a'), ('b')", f"GRANT SELECT ON app.rules TO {roles.quote(role)}",
        "ALTER TABLE app.rules ENABLE ROW LEVEL SECURITY", "CREATE POLICY own ON app.rules USING (owner = 'a')",
    )  # fmt: skip
    with site.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    with roles.engine_of(site, role) as engine, open_cut(engine) as cut:
        for reading in (cut.connect(), connect_at(engine, cut.name)):
            with pytest.raises(exc.ProgrammingError, match="row-level security"), reading as connection:
                connection.execute(text("SELECT owner FROM app.rules")).all()


def test_a_role_without_rights_is_told_to_run_the_command(site: Engine, role: str):
    with roles.engine_of(site, role) as engine, pytest.raises(Exception, match="lrq grant"):
        migrations.require(engine)


def test_only_the_owner_may_migrate_remove_and_grant(site: Engine, role: str):
    grants.grant(site, role, Grantee.SERVER)
    with roles.engine_of(site, role) as engine:
        with engine.connect() as connection, pytest.raises(ConfigurationError, match="as the tables' owner"):
            queues.downgrade(connection)
        with pytest.raises(ConfigurationError, match="another role owns the tables: run `lrq grant` as '"):
            grants.grant(engine, role, Grantee.SENDER)


def test_only_the_owner_may_bring_older_tables_up_to_date(site: Engine, role: str):
    grants.grant(site, role, Grantee.SERVER)
    with site.begin() as connection:
        queues.downgrade(connection, revision="0030")
    with (
        roles.engine_of(site, role) as engine,
        engine.connect() as connection,
        pytest.raises(ConfigurationError, match="as the tables' owner"),
    ):
        queues.upgrade(connection, site_id="paris")


def test_an_unknown_role_is_refused(site: Engine):
    with pytest.raises(ConfigurationError, match="the database has no role 'nobody': create it with CREATE ROLE"):
        grants.grant(site, "nobody", Grantee.SENDER)


def test_the_printed_statements_give_the_same_rights(site: Engine, role: str):
    schema = site.url.query.get("lrq_schema", "public")
    with site.begin() as connection:
        driver = connection.connection.driver_connection
        for each in grants.statements("postgresql", role, Grantee.SENDER, schema=schema):
            driver.execute(each)
    with roles.engine_of(site, role) as engine, engine.begin() as connection:
        RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b"1", ["tokyo"])


def test_the_search_path_of_a_role_is_extended_once(site: Engine, role: str):
    schema = site.url.query.get("lrq_schema", "public")
    with site.begin() as connection:
        connection.execute(text(f"ALTER ROLE {roles.quote(role)} SET search_path = app"))
    for _ in range(2):
        grants.grant(site, role, Grantee.SENDER, search_path=True)
    url = site.url.difference_update_query(["lrq_schema"]).set(username=role, password="secret")
    plain = create_engine(url, poolclass=NullPool)
    with plain.begin() as connection:
        assert connection.execute(text("SHOW search_path")).scalar_one() == f"app, {schema}"
        RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b"1", ["tokyo"])


def test_a_server_may_truncate_every_table_that_it_rewrites_or_trims(site: Engine, role: str):
    grants.grant(site, role, Grantee.SERVER)
    partitioned = [
        f"{table}_{slot}" for table in ("lrq_log_entries", "lrq_log_commits", "lrq_ticks") for slot in range(8)
    ]
    with roles.engine_of(site, role) as engine, engine.begin() as connection:
        lock(connection, *partitioned, *(table.name for table in (*REWRITTEN, *REWRITTEN_UNKEPT)))
        for table in (*partitioned, *(table.name for table in (*REWRITTEN, *REWRITTEN_UNKEPT))):
            connection.execute(text(f"TRUNCATE {table}"))


def test_only_a_part_that_transmits_may_call_the_function_that_transmits(site: Engine, role: str):
    call = text("SELECT lrq_transmit('policy', 'x'::bytea, ARRAY['tokyo'])")
    with roles.engine_of(site, role) as engine:
        grants.grant(site, role, Grantee.SUBSCRIBER)
        with engine.connect() as connection, pytest.raises(Exception, match="permission denied for function"):
            connection.execute(call)
        for part in (Grantee.SENDER, Grantee.SERVER):
            grants.grant(site, role, part)
            with engine.begin() as connection:
                assert connection.execute(call).scalar_one()
    with site.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM lrq_log_commits")).scalar_one() == 2

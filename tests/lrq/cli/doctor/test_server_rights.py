"""The rights of a server's role on PostgreSQL: the named ones suffice, and each missing one is told."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import Engine, text

import queues
from lr_client import request_replay, wait_replay
from lr_server import LogReplicationServer, Settings
from lr_server.topology.rules import OwnSite
from lr_server.topology.table import add_peer
from queues.database import grants
from queues.database.grantees import Grantee
from queues.database.peers import PeerRow
from queues.database.server_rights import SERVER_SEQUENCES, missing_rights, table_rights
from queues.database.transactions import reading
from queues.names import SiteId
from queues.receive.replays import ReplayState
from tests.conftest import NewSite
from tests.lrq.cli.command import Command
from tests.system.replaying import UndoingJournal, journal, rows, send
from tests.system.world import QUICK, Messages, World, in_log_sync
from tests.waiting import eventually

ROLE = "lrq_least"


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def least(new_site: NewSite) -> Iterator["Least"]:
    with ExitStack() as stack:
        yield Least(World(new_site, stack), stack)


class Least:
    """Two sites whose servers have a role with the named rights and no other."""

    def __init__(self, world: World, stack: ExitStack) -> None:
        self.world = world
        self._stack = stack
        for site in ("paris", "tokyo"):
            self.grant(world.site(site))

    def grant(self, engine: Engine) -> None:
        sequences = [(name, right) for name, rights in SERVER_SEQUENCES.items() for right in rights]
        with engine.begin() as connection:
            if not connection.execute(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": ROLE}).first():
                connection.execute(text(f"CREATE ROLE {ROLE} LOGIN"))
            connection.execute(text("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC"))
            for table, right in table_rights():
                connection.execute(text(f"GRANT {right} ON {table} TO {ROLE}"))
            for name, right in sequences:
                connection.execute(text(f"GRANT {right} ON SEQUENCE {name} TO {ROLE}"))

    def url(self, site: str) -> str:
        return self.world.site(site).url.set(username=ROLE).render_as_string(hide_password=False)

    def server(self, site: str, **options: object) -> LogReplicationServer:
        settings = Settings(**{"site_id": site, "database_url": self.url(site), **QUICK, **options})  # type: ignore[arg-type]
        return self._stack.enter_context(LogReplicationServer(settings))


@pytest.mark.long
def test_the_named_rights_suffice_for_both_servers(least: Least, caplog: pytest.LogCaptureFixture) -> None:
    world, recorder = least.world, least.world.subscribe("tokyo")
    world.provide("paris", Messages(lambda _: [b"state"]))
    least.server("tokyo", listen=[], trim_seconds=0.1)
    trims = {"segment_bytes": 1, "trim_seconds": 0.1, "unknown_retention_seconds": 1e-6}
    add_peer(world.site("paris"), PeerRow(SiteId("tokyo"), "local:tokyo"), OwnSite("paris"))
    paris = least.server("paris", listen=[], topology="table", **trims)
    world.transmit("paris", b"1", to=["tokyo", "nowhere"])
    in_log_sync(paris, "tokyo")
    eventually(lambda: recorder.kinds("paris")[:3] == ["start 1", "snapshot 1", "complete 1"])
    for number in range(4):
        world.transmit("paris", b"%d" % number, to=["tokyo"])
        paris.drain(timeout=20)
    eventually(lambda: paris.status()["log"]["trimmed_seq"] > 0)
    eventually(lambda: world.execute("paris", "SELECT 1 FROM lrq_dropped_entries"))
    assert paris.server_status().troubles == {}
    assert "permission denied" not in caplog.text


@pytest.mark.long
@pytest.mark.parametrize("undo", [True, False])
def test_the_named_rights_suffice_for_a_replay(least: Least, caplog: pytest.LogCaptureFixture, undo: bool) -> None:
    world, site = least.world, least.world.site("tokyo")
    journal.metadata.create_all(site)
    world.subscribe("tokyo", UndoingJournal(), shards=2)
    least.server("tokyo", listen=[])
    kept = {"acknowledged_retention_seconds": 3600.0, "initial_sync": "log"}
    least.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, **kept)
    send(world.site("paris"), "entry")
    eventually(lambda: len(rows(site)) == 1)
    ordered = request_replay(site, "policy", "paris", person="ada", start=1, undo=undo)
    assert wait_replay(site, ordered, 60).state is ReplayState.BEGUN
    eventually(lambda: [kind for kind, *_ in rows(site)].count("log") == 2)
    assert "permission denied" not in caplog.text


def test_each_missing_right_is_told(least: Least) -> None:
    engine = queues.create_engine(least.url("paris"))
    with reading(engine) as connection:
        assert missing_rights(connection) == []
    sequences = [(name, right) for name, rights in SERVER_SEQUENCES.items() for right in rights]
    for kind, pairs in (("", table_rights()), ("SEQUENCE ", sequences)):
        for name, right in pairs:
            least.world.execute("paris", f"REVOKE {right} ON {kind}{name} FROM {ROLE}")
            with reading(engine) as connection:
                assert missing_rights(connection) == [f"{right} on {name}"]
            least.world.execute("paris", f"GRANT {right} ON {kind}{name} TO {ROLE}")
    engine.dispose()


def test_the_doctor_names_a_missing_right(lrq: Command, least: Least) -> None:
    least.world.execute("paris", f"REVOKE UPDATE ON lrq_leases FROM {ROLE}")
    done = lrq("doctor", "--database", least.url("paris"), "--site", "paris")
    (said,) = [line for line in done.out.splitlines() if line.startswith("problem")]
    assert (done.code, said) == (
        3,
        "problem  rights: the role lacks UPDATE on lrq_leases: grant these rights to the role",
    )


def test_lrq_grant_gives_a_server_each_right_that_the_doctor_asks_for(new_site: NewSite) -> None:
    engine = new_site("paris")
    with engine.begin() as connection:
        if not connection.execute(text("SELECT 1 FROM pg_roles WHERE rolname = 'lrq_granted'")).first():
            connection.execute(text("CREATE ROLE lrq_granted LOGIN"))
    grants.grant(engine, "lrq_granted", Grantee.SERVER)
    granted = queues.create_engine(engine.url.set(username="lrq_granted"))
    with reading(granted) as connection:
        assert missing_rights(connection) == []
    granted.dispose()

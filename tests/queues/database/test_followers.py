"""The synchronous standby servers of a real primary, counted by each role, while commits wait and while none does."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import Engine, create_engine, text

import queues
from queues.database import grants
from queues.database.followers import followers, standby_facts
from queues.database.grantees import Grantee
from queues.database.site_look import is_well
from queues.database.standby_facts import StandbyFacts
from queues.database.transactions import reading
from queues.errors import ConfigurationError
from queues.names import SiteId
from tests.standbys import StandbyServers, standby_servers
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes]


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def servers(dialect: str) -> Iterator[StandbyServers]:
    with standby_servers() as made:
        yield made


def facts(engine: Engine) -> StandbyFacts | None:
    with reading(engine) as connection:
        return standby_facts(connection)


def as_role(servers: StandbyServers, role: str) -> Engine:
    return queues.create_engine(servers.url().replace("postgres:@", f"{role}@"))


def test_followers_are_counted_while_a_commit_waits_and_each_role_sees_its_share(servers: StandbyServers) -> None:
    paris = servers.site("paris")
    with paris.begin() as connection:
        for role in ("server", "stranger"):
            connection.execute(text(f"CREATE ROLE {role} LOGIN"))
    grants.grant(paris, "server", Grantee.SERVER)
    seeing, blind = as_role(servers, "server"), as_role(servers, "stranger")
    assert (followers(paris), followers(seeing)) == (2, 2)
    with reading(paris) as connection:
        assert not is_well(connection, SiteId("paris")), "the quick look of a server's health leaves this to `require`"
    with pytest.raises(ConfigurationError, match="may not see the standby servers: run `lrq grant` as a superuser"):
        followers(blind)
    servers.stop("b2")
    eventually(lambda: followers(seeing) == 1)
    servers.stop("b3")
    eventually(lambda: followers(seeing) == 0)
    waiting = create_engine(servers.url())
    with closing(waiting.raw_connection()) as raw:
        # The driver sends the commit and does not wait for the answer, which cannot come.
        wire = raw.driver_connection.pgconn  # type: ignore[union-attr]
        wire.send_query(b"CREATE TABLE late ()")
        eventually(lambda: (found := facts(seeing)) is not None and found.waiting_seconds > 1.0)
        assert followers(seeing) == 0
        assert facts(blind) == StandbyFacts(1, None, 0.0)
        servers.start("b3")
        eventually(lambda: not wire.is_busy() or wire.consume_input())
    eventually(lambda: facts(seeing) == StandbyFacts(1, 1, 0.0))
    for engine in (paris, seeing, blind, waiting):
        engine.dispose()


def test_without_the_setting_no_follower_is_asked_for_and_an_owner_without_rights_grants_the_rest(
    site: Engine,
) -> None:
    assert followers(site) == 0
    assert facts(site) == StandbyFacts(0, 0)
    assert "GRANT pg_read_all_stats" in " ".join(grants.statements("postgresql", "lrq", Grantee.SERVER))
    assert "pg_read_all_stats" not in " ".join(grants.statements("postgresql", "lrq", Grantee.SENDER))


def test_sqlite_has_no_followers() -> None:
    assert followers(queues.create_engine("sqlite://")) is None

"""After `default_transaction_read_only` of a database is off again, each part goes on with new connections."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, create_engine, text

from queues.database import leases
from queues.database.transactions import writing
from queues.errors import StoreUnavailableError
from tests.system.world import World, in_log_sync
from tests.waiting import eventually

TOLD = "in a read-only transaction"


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def read_only(site: Engine) -> Iterator[None]:
    """Make new sessions of the database read-only, and end the present ones."""
    admin = create_engine(
        site.url,
        isolation_level="AUTOCOMMIT",
        connect_args={"options": "-c default_transaction_read_only=off", "application_name": "admin"},
    )
    changed = f'ALTER DATABASE "{site.url.database}" {{}} default_transaction_read_only'
    with admin.connect() as connection:
        connection.execute(text(f"{changed.format('SET')} = on"))
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        yield
        connection.execute(text(changed.format("RESET")))
    admin.dispose()


def test_servers_and_subscribers_go_on_by_themselves(world: World):
    heard = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"])
    in_log_sync(paris, "tokyo")
    with read_only(world.site("paris")):
        eventually(lambda: any(TOLD in each for each in paris.health_troubles().values()))
    eventually(lambda: not paris.health_troubles())
    world.site("paris").dispose()
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"1"])


def test_a_refused_write_replaces_its_connection(site: Engine):
    with read_only(site):
        site.dispose()
        with pytest.raises(StoreUnavailableError, match=TOLD), writing(site) as connection:
            connection.execute(text("DELETE FROM lrq_leases"))
        with pytest.raises(StoreUnavailableError, match=TOLD):
            leases.acquire(site, "server", "a", ttl=60)
    assert leases.acquire(site, "server", "a", ttl=60) is not None

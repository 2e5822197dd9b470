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
def read_only(site: Engine) -> Iterator[Engine]:
    """Make new sessions of the database read-only, and end the present ones; give an engine that writes."""
    admin = create_engine(
        site.url,
        isolation_level="AUTOCOMMIT",
        connect_args={"options": "-c default_transaction_read_only=off", "application_name": "admin"},
    )
    changed = f'ALTER DATABASE "{site.url.database}" {{}} default_transaction_read_only'
    try:
        with admin.connect() as connection:
            connection.execute(text(f"{changed.format('SET')} = on"))
        end_others(admin)
        yield admin
        with admin.connect() as connection:
            connection.execute(text(changed.format("RESET")))
    finally:
        admin.dispose()


def end_others(admin: Engine) -> None:
    """End all sessions of the database but that of *admin*."""
    with admin.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )


def test_servers_and_subscribers_go_on_by_themselves(world: World):
    heard = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"])
    in_log_sync(paris, "tokyo")
    with read_only(world.site("paris")) as admin:
        # The entry needs a tick, which is a write.
        with admin.connect() as connection, connection.execution_options(isolation_level="READ COMMITTED").begin():
            world.client.transmit_log_entry_message(connection, b"0", ["tokyo"])

        def is_refused() -> bool:
            if any(TOLD in each for each in paris.health_troubles().values()):
                return True
            # A session that began in the moment of the change is not read-only.
            end_others(admin)
            return False

        eventually(is_refused, interval=3)
    eventually(lambda: not paris.health_troubles())
    world.site("paris").dispose()
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"0", b"1"])


def test_a_refused_write_replaces_its_connection(site: Engine):
    with read_only(site):
        site.dispose()
        with pytest.raises(StoreUnavailableError, match=TOLD), writing(site) as connection:
            connection.execute(text("DELETE FROM lrq_leases"))
        with pytest.raises(StoreUnavailableError, match=TOLD):
            leases.acquire(site, "server", "a", ttl=60)
    assert leases.acquire(site, "server", "a", ttl=60) is not None

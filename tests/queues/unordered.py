"""Entries that are transmitted while the ordering trigger is off."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import command
from sqlalchemy import Connection, Engine, text

from lr_client import RoutingQueueSenderClient
from queues.clock import now_us
from queues.database import migrations, schema
from queues.destinations import destination_set
from queues.names import ClientName
from queues.send_log.opening import outbox
from queues.send_log.outbox import NewEntry
from queues.send_log.postgresql.outbox import SLOT
from tests.house.page_blocks import take

(_SWITCH_ON,) = take(__name__, "docs/operating.md", "sql")

# The segments have copies of the trigger, but on PostgreSQL 14 triggers of their own.
_OWN = text("""
    SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'lrq_sequence_commit' AND tgparentid = 0
      AND tgrelid::regclass::text LIKE 'lrq_log_entries%' ORDER BY 1
""")


def triggered(connection: Connection) -> list[str]:
    """Return the tables to name in a change of the ordering trigger."""
    return list(connection.execute(_OWN).scalars())


@contextmanager
def trigger_off(site: Engine) -> Iterator[None]:
    """Switch the ordering trigger off, as a bulk load does; at the end, switch it on as the page says."""
    with site.begin() as connection:
        tables = triggered(connection)
        for table in tables:
            connection.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER ALL"))
    yield
    with site.begin() as connection:
        # An earlier version has no helper table.
        has_helper = connection.execute(text("SELECT to_regclass('lrq_waiting_places')")).scalar() is not None
        for line in _SWITCH_ON.splitlines():
            if has_helper or "lrq_waiting_places" not in line:
                for table in tables:
                    connection.execute(text(line.replace("lrq_log_entries", table)))


def transmit(site: Engine, *payloads: bytes, client: str = "policy") -> None:
    """Commit one transaction of entries for tokyo."""
    with site.begin() as connection:
        for payload in payloads:
            RoutingQueueSenderClient(client).transmit_log_entry_message(connection, payload, ["tokyo"])


_WRITE = text(
    "INSERT INTO lrq_log_entries (slot, client, tag_set, destinations, created_us, payload) "
    f"SELECT {SLOT.replace('%%', '%')}, 'policy', :tag_set, :destinations, :now, :payload"
)


def write_as_before(connection: Connection, *payloads: bytes) -> None:
    """Write entries for tokyo without the tables of later schemas."""
    targets = destination_set(ClientName("policy"), ["tokyo"])
    if connection.dialect.name != "postgresql":
        outbox(connection)(connection, "policy", [NewEntry(payload, targets) for payload in payloads], now_us())
        return
    # The present statement reads the sequence of the links, which earlier schemas lack.
    values = {"tag_set": targets.number, "destinations": targets.text, "now": now_us()}
    connection.execute(_WRITE, [values | {"payload": payload} for payload in payloads])


def migrate_to(site: Engine, revision: str) -> None:
    """Migrate the tables to a revision, up or down."""
    with site.begin() as connection:
        config = migrations.config()
        config.attributes["connection"] = connection
        step = command.downgrade if revision < schema.version(connection) else command.upgrade
        step(config, revision)

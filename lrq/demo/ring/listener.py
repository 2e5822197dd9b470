"""The application at the sink: it writes each number into a table, in the order of the calls."""

from collections.abc import Sequence

from sqlalchemy import Engine, func, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lr_client import RoutingQueueListener, RoutingTableEntryMsg
from lrq.demo.ring.places import CLIENT


class NumberTables(DeclarativeBase):
    """The tables of the application: only one."""


class Heard(NumberTables):
    """One number that has arrived; a number that arrives twice has two rows."""

    __tablename__ = "heard"

    place: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int]


class NumberListener(RoutingQueueListener):
    """Writes the numbers; they commit in one transaction with the removal of the entries."""

    client_name = CLIENT

    def process_updates_in_log_entry_sync(
        self,
        session: Session,
        source_id: str,
        entries: Sequence[RoutingTableEntryMsg],
    ) -> bool:
        """Write the numbers of *entries*."""
        session.execute(insert(Heard), [{"number": int(entry.opaque_payload)} for entry in entries])
        return True

    #: A ring sends no snapshots. The proof would find the rows of one.
    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync


def count(engine: Engine) -> int:
    """Return how many numbers have arrived."""
    with Session(engine) as session:
        return session.scalar(select(func.count()).select_from(Heard)) or 0


def numbers(engine: Engine) -> list[int]:
    """Return all numbers that have arrived, in their order."""
    with Session(engine) as session:
        return list(session.scalars(select(Heard.number).order_by(Heard.place)))

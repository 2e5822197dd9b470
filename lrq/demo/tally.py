"""The tally: entries for each site are counted at the source, and again at the sink.

Applications need no tally. An entry applied twice may leave a table that looks right, but not a tally that is right.
Paris counts in the transaction that writes, a sink in the transaction that applies. A snapshot carries the tally of
Paris, read at the cut of the snapshot. An entry in both the snapshot and the log, or in neither, is detected too.
"""

from collections.abc import Collection, Sequence
from hashlib import blake2b

from sqlalchemy import select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from lrq.demo.airports import Base


class Tally(Base):
    """The count of entries for one site; the row of the source counts all entries.

    `fingerprint` is a hash of the previous fingerprint and the payload. The fingerprints of source and sink agree only
    if the same payloads came in the same order, each once.
    """

    __tablename__ = "tallies"

    site: Mapped[str] = mapped_column(primary_key=True)
    entries: Mapped[int] = mapped_column(default=0)
    payload_bytes: Mapped[int] = mapped_column(default=0)
    fingerprint: Mapped[str] = mapped_column(default="")
    #: At a sink: `entries` at the cut of its snapshot.
    entries_at_cut: Mapped[int] = mapped_column(default=0)

    def count(self, payload: bytes) -> None:
        """Add one entry."""
        self.entries += 1
        self.payload_bytes += len(payload)
        self.fingerprint = blake2b(self.fingerprint.encode() + payload, digest_size=16).hexdigest()


class TransactionTally(Base):
    """The number of transactions of the application at a site."""

    __tablename__ = "transactions"

    site: Mapped[str] = mapped_column(primary_key=True)
    committed: Mapped[int] = mapped_column(default=0)
    rolled_back: Mapped[int] = mapped_column(default=0)


def tallies(session: Session, sites: Collection[str]) -> Sequence[Tally]:
    """Return the tallies of *sites*, locked until the transaction ends."""
    chosen = select(Tally).where(Tally.site.in_(sites)).order_by(Tally.site).with_for_update()
    return session.scalars(chosen).all()


def count(session: Session, *, committed: int = 0, rolled_back: int = 0) -> None:
    """Count transactions of the application."""
    session.execute(
        update(TransactionTally).values(
            committed=TransactionTally.committed + committed, rolled_back=TransactionTally.rolled_back + rolled_back
        )
    )

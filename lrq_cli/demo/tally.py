"""The proof: what each site is owed is counted where it is written, and again where it arrives.

No application needs this. A table that is brought up to date twice may well look right in the end; these numbers
would not. Paris counts in the transaction that writes, a sink in the one that applies. A sink that begins with a
snapshot begins with the count of Paris, read at the very cut of that snapshot: an entry that is both in the snapshot
and in the log, or in neither, shows too.
"""

from collections.abc import Collection, Sequence
from hashlib import blake2b

from sqlalchemy import select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from lrq_cli.demo.airports import Base


class Tally(Base):
    """What was written for one site; for the source itself, what was written at all.

    `fingerprint` is the hash of each payload behind the fingerprint before it. It comes out the same at both ends only
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


class Transactions(Base):
    """How many transactions the application at a site has made."""

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
        update(Transactions).values(
            committed=Transactions.committed + committed, rolled_back=Transactions.rolled_back + rolled_back
        )
    )

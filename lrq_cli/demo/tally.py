"""The proof: what each site is owed is counted where it is written, and again where it arrives.

No application needs this. A table that is brought up to date twice, or out of order, may well look right in the end;
these numbers would not. Paris counts in the transaction that writes, a sink in the one that applies. A site that begins
with a snapshot begins with Paris' own count, read at the very cut of that snapshot: an entry that is both in the
snapshot and in the log, or in neither, would show too.
"""

from collections.abc import Iterable
from hashlib import blake2b

from sqlalchemy import select
from sqlalchemy.orm import Mapped, Session, mapped_column

from lrq_cli.demo.airports import Base


class Tally(Base):
    """What was written for one site, or written at all.

    `fingerprint` is the hash of every payload after the fingerprint before it: it is the same at both ends only if the
    same payloads came in the same order, each once.
    """

    __tablename__ = "tallies"

    site: Mapped[str] = mapped_column(primary_key=True)
    entries: Mapped[int] = mapped_column(default=0)
    payload_bytes: Mapped[int] = mapped_column(default=0)
    fingerprint: Mapped[str] = mapped_column(default="")
    #: At a sink: `entries` at the cut of the snapshot that it began with.
    entries_at_cut: Mapped[int] = mapped_column(default=0)

    def count(self, payload: bytes) -> None:
        """Add one entry."""
        self.entries += 1
        self.payload_bytes += len(payload)
        self.fingerprint = blake2b(self.fingerprint.encode() + payload, digest_size=16).hexdigest()


def count_everywhere(session: Session, sites: Iterable[str], payload: bytes) -> None:
    """Add one entry to the tally of each of *sites*, which stay locked until the transaction ends."""
    wanted = select(Tally).where(Tally.site.in_(list(sites))).order_by(Tally.site).with_for_update()
    for tally in session.scalars(wanted):
        tally.count(payload)

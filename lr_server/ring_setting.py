"""The table `[ring]` of a site's settings, and its demands on the other settings. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator
from sqlalchemy import make_url

from discovery.ring_table import with_named_members
from discovery.rings import Share, share_of
from lr_server.protocol.agreement.generations import RANKS
from lr_server.setting_types import ListenEndpoint, Seconds, Site, WholeNumber
from queues.database import urls
from queues.errors import ConfigurationError
from queues.send_log.port import TickLimits

#: Each tick of a ring fits in a message of this size.
FEWEST_MESSAGE_BYTES: Final = 16 * 1024 * 1024
#: The numbers of followers that may acknowledge an entry before its answer.
ALLOWED_ACKNOWLEDGING: Final = (1, 2)


class RingSetting(BaseModel):
    """The members of the site's ring, and this server's place among them.

    Attributes:
        members: The endpoints of the three servers, where each of them listens, by rank. A table gives each a name.
        rank: The rank of this server: 0 leads by default, 1 takes over, and 2 follows. With a table of members,
            `member` is the name of this server instead.
        names: The names of the members by rank, if `members` is a table. `lrq ring` shows them.
        witness: The file of the witness: on another disk than the database, and in no backup.
        lease_seconds: Rank 1 takes over if it hears the leader for no such time.
        stall_seconds: A leader that hears no follower for so long takes no entries. If both must acknowledge, then
            the silence of one is enough.
        acknowledging_followers: A producer gets an answer once so many followers have the entries on their disks. With
            the default 1 all goes on after the loss of a machine. With 2 an answered entry is on all three disks, and
            the ring takes no entries while a machine is away. Set the same number at all three servers.
        trim: Whether entries go from this server's file once every sink has them, or once they are beyond retention.
            With the default False the file keeps the whole log.
        rings: The number of rings that share the keys of the application, this one included. A leader refuses messages
            whose partition key belongs to another ring.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    members: Annotated[Sequence[ListenEndpoint], Field(min_length=len(RANKS), max_length=len(RANKS))]
    rank: Annotated[WholeNumber, Field(ge=RANKS[0], le=RANKS[-1])]
    names: Sequence[Site] = ()
    witness: Path
    lease_seconds: Seconds = 3.0
    stall_seconds: Seconds = 5.0
    acknowledging_followers: WholeNumber = 1
    trim: bool = False
    rings: WholeNumber = 1

    @model_validator(mode="before")
    @classmethod
    def _named(cls, values: object) -> object:
        return with_named_members(values)

    def shown(self, rank: int) -> str:
        """Return *rank* in words, with the name of the member if it has one."""
        return f"rank {rank} ({self.names[rank]})" if self.names else f"rank {rank}"

    def rank_of(self, member: str) -> int:
        """Return the rank of *member*: a name, a rank or an endpoint; raise `ConfigurationError` for another text."""
        for texts in (self.names, list(map(str, RANKS)), self.members):
            if member in texts:
                return list(texts).index(member)
        known = ", ".join(self.names) or "0, 1, 2"
        raise ConfigurationError(f"the ring has no member {member!r}: name one of {known}")

    def share(self, site: str) -> Share:
        """Return the keys of the ring *site*; raise `ConfigurationError` if its name does not fit `rings`."""
        return share_of(site, self.rings)


def check_ring(
    ring: RingSetting,
    *,
    site: str,
    database_url: str,
    listens: bool,
    ingest: bool,
    initial_sync: str,
    replicas: Mapping[str, object],
    max_message_bytes: int,
    tick: TickLimits,
) -> None:
    """Raise `ConfigurationError` where other settings contradict those of the ring."""
    ring.share(site)
    _check_followers(ring.acknowledging_followers)
    file = urls.file_of(make_url(database_url))
    if file is None:
        raise ConfigurationError("a ring keeps its log in SQLite files: set database_url to a file, sqlite:///paris.db")
    if file == ring.witness:
        raise ConfigurationError("the witness of the ring is the database itself: name another file, on another disk")
    _check_members(ring)
    if not listens:
        raise ConfigurationError("the other members reach a server of a ring at `listen`: add its endpoint there")
    if not ingest:
        raise ConfigurationError("a ring takes entries of producers only: set ingest, and write a table [producers]")
    if initial_sync == "snapshot":
        raise ConfigurationError('a ring has no snapshots: set initial_sync to "log"')
    if replicas:
        raise ConfigurationError("a ring has no replicas: remove the table [replicas]")
    most = TickLimits()
    if tick.rows > most.rows or tick.payload_bytes > most.payload_bytes:
        raise ConfigurationError(
            f"a tick of a ring has at most {most.rows} rows of {most.payload_bytes} bytes: "
            f"lower tick_rows ({tick.rows}) and tick_bytes ({tick.payload_bytes}) to that"
        )
    if max_message_bytes < FEWEST_MESSAGE_BYTES:
        raise ConfigurationError(
            f"max_message_bytes is {max_message_bytes}, but a message between members may need "
            f"{FEWEST_MESSAGE_BYTES}: set at least {FEWEST_MESSAGE_BYTES}"
        )


def _check_members(ring: RingSetting) -> None:
    if ring.names and len(set(ring.names)) != len(RANKS):
        raise ConfigurationError("ring.names has not three different names: write `members` as a table of three")
    if len(set(ring.members)) < len(ring.members):
        raise ConfigurationError("two members of the ring have one endpoint: write the three servers, by rank")


def _check_followers(acknowledging: int) -> None:
    if acknowledging == 0:
        raise ConfigurationError(
            "acknowledging_followers is 0, but a ring answers only once a follower has the entry on its disk: "
            "set 1 or 2, or remove [ring] for a server that answers after its own disk"
        )
    if acknowledging not in ALLOWED_ACKNOWLEDGING:
        raise ConfigurationError(
            f"acknowledging_followers is {acknowledging}, but a ring has two followers: set 1 or 2"
        )

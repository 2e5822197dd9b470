"""Where streams of `lrq_receive` stand in the database that they are applied to, in the transaction of each batch."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table, Text, insert, select, update

from lr_client.spark.offsets import SNAPSHOT_START
from queues.clock import now_us
from queues.names import MAX_NAME_LENGTH
from queues.receive.consuming import IN_LOG, IN_SNAPSHOT

#: One row a stream; `name` tells apart the queries that write into one database.
positions: Final = Table(
    "lrq_stream_positions",
    MetaData(),
    Column("name", String(200), primary_key=True),
    Column("client", String(MAX_NAME_LENGTH), primary_key=True),
    Column("source", String(MAX_NAME_LENGTH), primary_key=True),
    Column("sync_id", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
)


class Stream(NamedTuple):
    """What one source sends for one client."""

    client: str
    source: str


@dataclass(frozen=True, slots=True)
class Place:
    """All up to here is applied; `sync_id` is None where nothing is known yet, empty before the first snapshot."""

    sync_id: str | None
    phase: str
    branch: str
    sequence: int

    @property
    def order(self) -> tuple[bool, int]:
        """What places of one sync_id are ordered by."""
        return self.phase == IN_LOG, self.sequence


#: Where a stream stands that has never been here.
NOWHERE: Final = Place(None, IN_LOG, "", 0)


def place_of(row: Any) -> Place:  # noqa: ANN401 - a row of Spark's
    """Return the place that a row of `lrq_receive` brings its stream to."""
    phase = IN_SNAPSHOT if row.kind in (SNAPSHOT_START, IN_SNAPSHOT) else IN_LOG
    return Place(row.sync_id or "", phase, row.branch or "", row.sequence)


def load(connection: Connection, name: str) -> dict[Stream, Place]:
    """Read the places of all streams of *name*, and keep others from moving them until the transaction ends."""
    own = positions.c.name == name
    # A write comes first: another driver with this name waits, and SQLite gives its lock at once.
    connection.execute(update(positions).where(own).values(updated_us=now_us()))
    return {
        Stream(row.client, row.source): Place(row.sync_id, row.phase, row.branch, row.sequence)
        for row in connection.execute(select(positions).where(own))
    }


def save(connection: Connection, name: str, before: dict[Stream, Place], reached: dict[Stream, Place]) -> None:
    """Write the places that were *reached*; *before* are those that `load` gave."""
    for stream, place in reached.items():
        own = {"name": name, "client": stream.client, "source": stream.source}
        values = {
            "sync_id": place.sync_id,
            "phase": place.phase,
            "branch": place.branch,
            "sequence": place.sequence,
            "updated_us": now_us(),
        }
        if stream in before:
            connection.execute(update(positions).where(*(positions.c[key] == own[key] for key in own)).values(values))
        else:
            connection.execute(insert(positions).values(own | values))

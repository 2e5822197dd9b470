"""The places of `lrq_receive` streams, stored in the target database in the transaction of each batch."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table, Text, insert, select, update

from lr_client.spark.receive.offsets import SNAPSHOT_START
from queues.clock import now_us
from queues.database.left_out import left_out
from queues.errors import SetupError
from queues.names import MAX_NAME_LENGTH
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT

#: One row for each stream; `name` identifies the query among all that write into one database.
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


class StreamName(NamedTuple):
    """One stream: the entries of one source for one client."""

    client: str
    source: str


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """The place up to which everything is applied.

    `sync_id` is None for a stream that has never been applied, and empty before the first snapshot.
    """

    sync_id: str | None
    phase: str
    branch: str
    sequence: int

    @property
    def order(self) -> tuple[bool, int]:
        """The sort key of places with the same `sync_id`."""
        return self.phase == IN_LOG, self.sequence


#: The place of a stream that has never been applied.
NOWHERE: Final = StreamPlace(None, IN_LOG, "", 0)


def place_of(row: Any) -> StreamPlace:  # noqa: ANN401 - a row of Spark's
    """Return the place of a stream after *row* of `lrq_receive`."""
    phase = IN_SNAPSHOT if row.kind in (SNAPSHOT_START, IN_SNAPSHOT) else IN_LOG
    return StreamPlace(row.sync_id or "", phase, row.branch or "", row.sequence)


def load(connection: Connection, name: str) -> dict[StreamName, StreamPlace]:
    """Read the places of all streams of *name*, and lock them until the transaction ends."""
    # A write comes first: a second query of this name waits, and SQLite gives the write lock at once.
    connection.execute(update(positions).where(positions.c.name == name).values(updated_us=now_us()))
    return _stored(connection, name)


def _stored(connection: Connection, name: str) -> dict[StreamName, StreamPlace]:
    return {
        StreamName(row.client, row.source): StreamPlace(row.sync_id, row.phase, row.branch, row.sequence)
        for row in connection.execute(select(positions).where(positions.c.name == name))
    }


def save(
    connection: Connection, name: str, before: dict[StreamName, StreamPlace], reached: dict[StreamName, StreamPlace]
) -> None:
    """Write the *reached* places; *before* must be the result of `load`.

    Raises `SetupError` if a trigger of others leaves one out.
    """
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
    found = _stored(connection, name)
    # Without its place a batch would be applied again. Any database may be the target, so the places are read again.
    if any(found.get(stream) != place for stream, place in reached.items()):
        raise SetupError(left_out(positions.name))

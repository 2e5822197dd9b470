"""One micro-batch of `exactly_once`: entries that were applied before are skipped, and the others come in order."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Connection

from lr_client.spark.receive.offsets import SNAPSHOT_START
from lr_client.spark.receive.positions import NOWHERE, StreamName, StreamPlace, place_of
from lr_client.subscriber.listener_session import require_done
from queues.errors import NeedsFullSyncError, UsageError
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT

#: Writes entries in the transaction of the batch: rows of `lrq_receive`, of one source and kind, in order.
Apply: TypeAlias = Callable[[Connection, Sequence[Any]], object]
#: Called in the transaction of the batch, with the source whose snapshot begins or completes.
OnSnapshot: TypeAlias = Callable[[Connection, str], object]

#: Limits of one call of `apply`; a larger entry comes alone.
_CHUNK_ROWS: Final = 1_000
_CHUNK_BYTES: Final = 4 * 1024 * 1024


class BatchCalls(NamedTuple):
    """The functions of the application that a batch calls."""

    apply: Apply
    on_start: OnSnapshot | None
    on_complete: OnSnapshot | None


class ExactBatch:
    """One micro-batch in its transaction; `places` holds the place that each stream has reached."""

    def __init__(self, connection: Connection, calls: BatchCalls, before: dict[StreamName, StreamPlace]) -> None:
        self._connection = connection
        self._calls = calls
        self._before = before
        self._latest: dict[StreamName, StreamPlace] = {}
        # The applied place and the last repeated row of another branch, until one of the applied branch follows.
        self._doubts: dict[StreamName, tuple[StreamPlace, StreamPlace]] = {}
        self._chunk: list[Any] = []
        self._chunk_of: tuple[StreamName, str] | None = None
        self._chunk_bytes = 0
        self.places: dict[StreamName, StreamPlace] = {}

    def take(self, row: Any) -> None:  # noqa: ANN401 - a row of Spark's
        """Apply *row* unless an earlier batch applied it; raise `UsageError` for a row out of order."""
        stream, to = StreamName(row.client, row.source), place_of(row)
        latest = self._latest.get(stream, NOWHERE)
        if latest.sync_id == to.sync_id and to.order <= latest.order:
            raise UsageError(f"entries of {stream.source} came out of order: leave the rows in the order of the stream")
        self._latest[stream] = to
        place = self.places.get(stream) or self._before.get(stream, NOWHERE)
        if to.sync_id == place.sync_id and to.order <= place.order:
            self._compare(stream, place, to)
            return
        self._require_no_doubt(stream)
        self._announce(stream, place, to, row)
        if row.kind in (IN_SNAPSHOT, IN_LOG):
            self._add((stream, row.kind), row)
        self.places[stream] = to

    def finish(self) -> None:
        """Apply the last entries; raise `NeedsFullSyncError` if the source has lost entries that are applied here."""
        for stream in self._doubts:
            self._require_no_doubt(stream)
        self.flush()

    def flush(self) -> None:
        """Apply the collected entries."""
        if self._chunk:
            require_done(self._calls.apply(self._connection, self._chunk), "apply")
        self._chunk, self._chunk_bytes = [], 0

    def _add(self, of: tuple[StreamName, str], row: Any) -> None:  # noqa: ANN401 - a row of Spark's
        if of != self._chunk_of or len(self._chunk) >= _CHUNK_ROWS or self._chunk_bytes >= _CHUNK_BYTES:
            self.flush()
        self._chunk_of = of
        self._chunk.append(row)
        self._chunk_bytes += sum(len(value) for value in row if isinstance(value, bytes | bytearray | str))

    def _announce(self, stream: StreamName, place: StreamPlace, to: StreamPlace, row: Any) -> None:  # noqa: ANN401
        """Call the callbacks of a snapshot that begins or completes between *place* and *to*."""
        newer = to.sync_id != place.sync_id
        # A stream may begin after another subscriber, in the middle of a snapshot that this stream never saw begin.
        is_first = row.kind == SNAPSHOT_START or (row.kind == IN_SNAPSHOT and row.sequence == 1)
        begins = newer and (place.sync_id is not None or is_first)
        if begins:
            self._call(self._calls.on_start, stream)
        if to.phase == IN_LOG and (begins or (not newer and place.phase == IN_SNAPSHOT)):
            self._call(self._calls.on_complete, stream)

    def _compare(self, stream: StreamName, place: StreamPlace, to: StreamPlace) -> None:
        """Compare the branch of a repeated row with that of *place*; markers have no branch.

        After a failover of the source, the rows of earlier branches come first. A row of the applied branch has the
        same history as the applied one.
        """
        if to.phase == IN_LOG and to.branch:
            if to.branch == place.branch:
                self._doubts.pop(stream, None)
            else:
                self._doubts[stream] = place, to

    def _require_no_doubt(self, stream: StreamName) -> None:
        if stream in self._doubts:
            place, to = self._doubts[stream]
            raise NeedsFullSyncError(
                f"{stream.source} had lost entries that are applied here: {place.branch}@{place.sequence} was reached, "
                f"now {to.branch}@{to.sequence} comes. Request a snapshot from {stream.source}, then start again"
            )

    def _call(self, callback: OnSnapshot | None, stream: StreamName) -> None:
        if callback is not None:
            self.flush()
            require_done(callback(self._connection, stream.source), "a callback of a snapshot")

"""The receive queues, or their shards, whose next source transaction a listener refuses."""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from queues.database.transactions import reading
from queues.errors import UsageError
from queues.names import ClientName, SiteId
from queues.receive import failures, shard_marks
from queues.receive.failures import Failure
from queues.receive.registry import ReceiveQueue, every_registered


@dataclass(frozen=True, slots=True)
class BlockedQueue:
    """A queue with its failure; `shard` is None for a queue without shards."""

    queue: ReceiveQueue
    failure: Failure
    shard: int | None = None

    @property
    def name(self) -> str:
        """Name the queue for people."""
        shard = "" if self.shard is None else f", shard {self.shard}"
        return f"{self.queue.client} from {self.queue.source}{shard}"


def blocked(engine: Engine, *, client: str | None = None) -> list[BlockedQueue]:
    """List the queues and shards with a failure, of *client* or of all; tracebacks are left out."""
    with reading(engine, snapshot=True) as connection:
        queues = [each for each in every_registered(connection) if client in (None, each.client)]
        return [found for queue in queues for found in _of_queue(connection, queue)]


def blocked_one(engine: Engine, client: ClientName, source: SiteId, shard: int | None = None) -> BlockedQueue:
    """Return the failure of a queue or a shard, with its traceback.

    Without *shard*, a queue with one failing shard has that one. Raises `UsageError` for an unknown queue, for a queue
    without a failure, and for several failing shards.
    """
    with reading(engine, snapshot=True) as connection:
        return _one(connection, client, source, shard)


def _one(connection: Connection, client: ClientName, source: SiteId, shard: int | None) -> BlockedQueue:
    queue = next(
        (each for each in every_registered(connection) if (each.client, each.source) == (client, source)), None
    )
    if queue is None:
        raise UsageError(f"no entry of client {client} has come from {source}: `lrq status` shows the receive queues")
    found = [each for each in _of_queue(connection, queue) if shard in (None, each.shard)]
    if not found:
        where = "" if shard is None else f"shard {shard} of "
        raise UsageError(f"no entry blocks {where}{client} from {source}: `lrq park list` shows blocked queues")
    if len(found) > 1:
        shards = ", ".join(str(each.shard) for each in found)
        raise UsageError(f"several shards of {client} from {source} are blocked: choose one of {shards} by --shard")
    [one] = found
    failure = failures.last(connection, queue.queue_id, one.shard, traced=True)
    return BlockedQueue(queue, failure or one.failure, one.shard)


def _of_queue(connection: Connection, queue: ReceiveQueue) -> list[BlockedQueue]:
    if not shard_marks.rows_of(connection, queue.queue_id):
        failure = failures.last(connection, queue.queue_id)
        return [] if failure is None else [BlockedQueue(queue, failure)]
    of_shards = failures.of_shards(connection, queue.queue_id)
    return [BlockedQueue(queue, failure, shard) for shard, failure in sorted(of_shards.items())]

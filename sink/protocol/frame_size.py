"""The declared size of a frame, and the refusal of a frame that is too large. Pure."""

from collections.abc import Iterable

from queues.block_limits import Extent, too_many
from queues.wire import replication_pb2 as pb
from sink.protocol.log_rules import Refuse


def extent(blocks: Iterable[pb.Block]) -> Extent:
    """Return the declared content of the blocks of one frame."""
    groups = rows = size = 0
    for block in blocks:
        groups += 1
        rows += block.rows
        size += block.plain_size
    return Extent(groups, rows, size)


def refuse_large(told: Extent, limit: int) -> Refuse | None:
    """Return the refusal of a frame with more than *limit* bytes of rows, or with too many rows or groups."""
    if told.bytes > limit:
        return Refuse(
            pb.Refusal.TOO_LARGE,
            f"the frame holds {told.bytes} bytes of rows, this sink takes {limit}: raise max_message_bytes there",
        )
    reason = too_many(told)
    return Refuse(pb.Refusal.TOO_LARGE, reason) if reason else None

"""Let a call in: take a slot for it, or end it with the reason why there is none."""

from typing import Final

import grpc

from queues.logs import logger
from sink.transport.call_slots import CallSlot, CallSlots
from sink.transport.peer_identity import caller_of

log = logger("lrq.sink")

#: Stands in the trailing metadata of a call that was turned away: none of its messages was read.
_UNREAD: Final = ("lrq-unread", "1")


def entered(slots: CallSlots, context: grpc.ServicerContext) -> CallSlot:
    """Return a slot for the call of *context*; the caller gives it back with `leave`.

    Without a free slot the call ends with RESOURCE_EXHAUSTED and the reason. The log tells of it from time to time.
    """
    # The type stubs declare other values than gRPC returns.
    slot = slots.enter(caller_of(context.peer(), context.auth_context()), context.cancel)  # type: ignore[arg-type]
    if not isinstance(slot, CallSlot):
        if slots.is_news():
            log.warning("callers are turned away", reason=slot)
        context.set_trailing_metadata((_UNREAD,))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, slot)
    return slot


def is_unread(error: grpc.RpcError) -> bool:
    """Return whether the server says that it has read no message of the call that ended with *error*."""
    return isinstance(error, grpc.Call) and _UNREAD in (error.trailing_metadata() or ())

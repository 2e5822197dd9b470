"""Let a call in: take a slot for it, or end it with the reason why there is none."""

import grpc

from queues.logs import logger
from sink.transport.call_slots import CallSlot, CallSlots
from sink.transport.peer_identity import caller_of

log = logger("lrq.sink")


def entered(slots: CallSlots, context: grpc.ServicerContext) -> CallSlot:
    """Return a slot for the call of *context*; the caller gives it back with `leave`.

    Without a free slot the call ends with RESOURCE_EXHAUSTED and the reason. The log tells of it from time to time.
    """
    # The type stubs declare other values than gRPC returns.
    slot = slots.enter(caller_of(context.peer(), context.auth_context()), context.cancel)  # type: ignore[arg-type]
    if not isinstance(slot, CallSlot):
        if slots.is_news():
            log.warning("callers are turned away", reason=slot)
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, slot)
    return slot

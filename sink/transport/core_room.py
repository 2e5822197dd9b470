"""Room for the threads that gRPC starts by itself."""

import os
from typing import Final

from queues.thread_room import can_start

#: The fewest and the most threads of gRPC's pool; it has one for each core between both.
_POOL: Final = (4, 16)
#: The threads beside the pool: its guard, timers, names of hosts, and those of one call.
_BESIDE: Final = 5
#: The threads of one call, and one to spare.
_CALL: Final = 3
_NAME: Final = "lrq-grpc-room"


def is_enough() -> bool:
    """Return whether the threads of a first connection or server can start now.

    Without them gRPC itself tries for ten seconds, then ends the process. Raises `UsageError` while Python ends.
    """
    fewest, most = _POOL
    return can_start(min(max(os.cpu_count() or 1, fewest), most) + _BESIDE, _NAME)


def is_enough_for_call() -> bool:
    """Return whether the threads of one more call can start now; gRPC never ends a call without them."""
    return can_start(_CALL, _NAME)

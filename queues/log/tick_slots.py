"""Where a tick is stored: in which of the slots, by its number alone. Pure.

On PostgreSQL each slot is a partition of its own, which is emptied whole when no tick in it is kept any more. While
trimming is far behind, slots are come back to before they are empty; they are emptied once it has caught up.
"""

from typing import Final

from queues.tables import TICK_SLOTS

#: Ticks with neighbouring numbers are in one slot. All slots hold several times as many as are kept, so that a slot is
#: empty long before it is come back to.
TICKS_A_SLOT: Final = 8_192


def slot_of(number: int) -> int:
    """Return the slot of the tick with *number*. So who inserts the same number twice does it into the same slot."""
    return number // TICKS_A_SLOT % TICK_SLOTS

"""Numbers of entries, counted up to a limit. Pure."""

from typing import Final, NamedTuple

#: Counting stops here, because a queue may hold any number of entries.
COUNTED: Final = 10_000


class Count(NamedTuple):
    """A number of entries; with `is_least`, there are more than were counted."""

    entries: int
    is_least: bool = False

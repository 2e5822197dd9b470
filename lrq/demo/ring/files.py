"""The logs in the files of the three members, tick by tick."""

from collections.abc import Sequence
from typing import Final

import queues
from lrq.demo.ring.places import MEMBERS, RingPlaces
from queues.database.transactions import reading
from queues.send_log.ring.ring_log import read_ticks
from queues.send_log.ring.tick_contents import TickContent

#: The limits of one read.
_TICKS: Final = 1_000
_BYTES: Final = 8 * 1024 * 1024


def read_files(places: RingPlaces) -> list[list[TickContent]]:
    """Return the ticks with their entries in each member's file, by rank."""
    return [_ticks(places.database(member)) for member in MEMBERS]


def are_alike(files: Sequence[Sequence[TickContent]]) -> bool:
    """Return whether all *files* have the same ticks with the same entries. Pure."""
    return all(file == files[0] for file in files)


def generations(file: Sequence[TickContent]) -> int:
    """Return how many generations have ticks in *file*; each begins with a tick of its own. Pure."""
    return len({content.generation for content in file})


def _ticks(url: str) -> list[TickContent]:
    engine = queues.create_engine(url)
    found: list[TickContent] = []
    try:
        with reading(engine) as connection:
            while more := read_ticks(connection, len(found), _TICKS, _BYTES):
                # The numbers of requests are no entries: a member forgets them once nothing asks for them any more.
                found += [content._replace(productions=()) for content in more]
    finally:
        engine.dispose()
    return found

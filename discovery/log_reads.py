"""Read the entries of a log that are not sent: those without a place in order, or for no peer."""

from sqlalchemy import Connection

from discovery.log_status import OrderingStatus, UnknownStatus
from queues.browse.unknown import unknown_destinations
from queues.clock import seconds_since
from queues.database import schema
from queues.send_log import unordered


def read_ordering(connection: Connection) -> OrderingStatus:
    """Return the entries without a place in the order of commits."""
    return OrderingStatus(tuple(unordered.recorded(connection)), tuple(schema.untriggered(connection)))


def read_unknown(connection: Connection) -> tuple[UnknownStatus, ...]:
    """Return the destinations with entries that are no peers, as the last server recorded its peers."""
    return tuple(
        UnknownStatus(
            *each.owed,
            entries=each.waiting.entries,
            more=each.waiting.is_least,
            oldest_seconds=seconds_since(each.oldest_us) if each.oldest_us else 0.0,
            dropped=each.dropped,
            is_peer=each.is_peer,
        )
        for each in unknown_destinations(connection)
    )

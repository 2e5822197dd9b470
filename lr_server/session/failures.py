"""Map an error of a session to its event: the sink refuses, the sink is lost, or this site fails."""

from lr_server.protocol.events import PeerLost, RefusalKind, Refused, SourceFailed
from queues.errors import LrqError, PeerUnreachableError, ProtocolError, StoreUnavailableError
from queues.words import cleaned, describe


def event_for(error: BaseException) -> PeerLost | Refused | SourceFailed:
    """Return the event for *error*, raised by a call to the sink or to this site's database."""
    match error:
        case ProtocolError():
            return Refused(RefusalKind.PROTOCOL, cleaned(str(error)))
        case PeerUnreachableError():
            return peer_lost(error)
        case _:
            return source_failed(error)


def peer_lost(error: LrqError) -> PeerLost:
    """Return the event for *error*, which broke the connection."""
    return PeerLost(cleaned(str(error)))


def source_failed(error: BaseException) -> SourceFailed:
    """Return the event for *error*, whose only cause is this site."""
    match error:
        case StoreUnavailableError():
            return SourceFailed(cleaned(f"this site's database: {error}"))
        case LrqError():
            return SourceFailed(cleaned(f"this site: {error}"))
        case _:
            return SourceFailed(f"this site failed unexpectedly: {describe(error)}")

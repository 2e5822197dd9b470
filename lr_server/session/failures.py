"""Map an error of a session to its event: the sink refuses, the sink is lost, or this site fails."""

from lr_server.protocol.events import PeerLost, RefusalKind, Refused, SourceFailed
from queues.errors import LrqError, PeerUnreachableError, ProtocolError, StoreUnavailableError


def event_for(error: Exception) -> PeerLost | Refused | SourceFailed:
    """Return the event for *error*, raised by a call to the sink or to this site's database."""
    match error:
        case ProtocolError():
            return Refused(RefusalKind.PROTOCOL, str(error))
        case PeerUnreachableError():
            return PeerLost(str(error))
        case _:
            return source_failed(error)


def source_failed(error: Exception) -> SourceFailed:
    """Return the event for *error*, whose only cause is this site."""
    match error:
        case StoreUnavailableError():
            return SourceFailed(f"this site's database: {error}")
        case LrqError():
            return SourceFailed(f"this site: {error}")
        case _:
            return SourceFailed(f"this site failed unexpectedly: {type(error).__name__}: {error}")

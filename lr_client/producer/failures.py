"""The errors of a producer, by the reaction that helps. Pure."""

from typing import Final

from lr_client.producer.answers import DeclineKind, FailureCause, RequestFailure
from queues.errors import (
    ConfigurationError,
    LrqError,
    OutcomeUnknownError,
    PeerUnreachableError,
    ProducerTakenError,
    StoreUnavailableError,
    TransientError,
    UsageError,
    VersionLostError,
    first_line,
)
from queues.words import cleaned

#: Kinds of refusals that the site's operator corrects; the application corrects the other ones.
_SETTINGS: Final = frozenset({DeclineKind.NOT_ALLOWED, DeclineKind.UNKNOWN_CLIENT})
#: The longest reason of a server that an error repeats, in characters.
_LONGEST: Final = 500


def error_of(failure: RequestFailure, producer: str) -> LrqError:
    """Return the error for the caller of *producer*."""
    reason = cleaned(first_line(failure.reason), _LONGEST) or "the server gave no reason"
    match failure.cause:
        case FailureCause.REFUSED if failure.kind in _SETTINGS:
            return ConfigurationError(f"the site refused the request, and nothing was stored: {reason}")
        case FailureCause.REFUSED:
            return UsageError(f"the site refused the request, and nothing was stored: {reason}")
        case FailureCause.DROPPED:
            return TransientError(f"the request is not stored, send it again: {reason}")
        case FailureCause.LATE if failure.kind in (DeclineKind.UNSPECIFIED, DeclineKind.NOT_LEADER):
            return PeerUnreachableError(f"nothing was stored in time, send it again: {reason}")
        case FailureCause.LATE:
            return StoreUnavailableError(f"nothing was stored in time, send it again: {reason}")
        case FailureCause.UNKNOWN:
            return OutcomeUnknownError(
                f"request {failure.number} of producer {producer} may be stored or not ({reason}): "
                "do not send it again, the producer does so itself with its next call",
                sequence=failure.number,
            )
        case FailureCause.HISTORY_LOST:
            return VersionLostError(
                f"the site has lost requests of producer {producer}, {reason}: write the lost ones again, "
                "with a new Producer"
            )
        case FailureCause.TAKEN:
            return ProducerTakenError(
                f"another process sends as producer {producer}, {reason}: give each process a name of its own, or make "
                "a new Producer if that process has ended"
            )
        case FailureCause.CLOSED:
            return UsageError("the producer is closed, and the request is not stored: make a new Producer")

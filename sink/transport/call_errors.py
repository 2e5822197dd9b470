"""The errors of calls to a sink, by gRPC's status. Pure."""

from typing import Final

import grpc

from queues.errors import PeerUnreachableError, ProtocolError
from sink.transport.connect_errors import reason
from sink.transport.endpoints import IpcEndpoint, TcpEndpoint

_TOO_LARGE: Final = "larger than max"
# The peer was reached, but does not answer like a sink of this version.
_DISAGREEMENT: Final = frozenset(
    {
        grpc.StatusCode.DATA_LOSS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNKNOWN,
    }
)

Endpoint = TcpEndpoint | IpcEndpoint


def closed(endpoint: Endpoint) -> PeerUnreachableError:
    """Return the error of a call that this side has ended."""
    return PeerUnreachableError(f"the connection to {endpoint} was closed on this side")


def stopped(endpoint: Endpoint) -> PeerUnreachableError:
    """Return the error of a stream that ended without an answer for each frame."""
    return PeerUnreachableError(f"{endpoint} ended the stream, most likely because it stops")


def failed(
    endpoint: Endpoint, code: grpc.StatusCode, details: str, timeout: float
) -> PeerUnreachableError | ProtocolError:
    """Return the error of a call that ended with *code* and one line of *details*; *timeout* limits a call."""
    # A connection that breaks during an answer may look like an internal error.
    if code in _DISAGREEMENT and "RST_STREAM" not in details:
        return ProtocolError(f"{endpoint} does not answer as a sink does: {code.name} ({details})")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return PeerUnreachableError(f"{endpoint} has no slot for the session: {details}")
    if code is grpc.StatusCode.CANCELLED:
        return PeerUnreachableError(f"{endpoint} has ended the call ({details or code.name})")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return PeerUnreachableError(f"{endpoint} has not answered within {timeout:g} s ({code.name})")
    return PeerUnreachableError(f"{endpoint} cannot be reached: {reason(endpoint, code.name, details)}")


def is_too_large(code: grpc.StatusCode, details: str) -> bool:
    """Return whether the sink takes no message of that size."""
    return code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in details

"""Why a sink cannot be reached, from what gRPC says of it, in words of what to do. Pure."""

from typing import Final

from sink.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint

#: What gRPC says where two sides do not come together by TLS, and what that means.
_HANDSHAKE: Final = {
    "Hostname Verification": "its certificate is for other addresses: use one of those, or issue one for this address",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not of the authority in `tls_authority`, or out of date",
    "WRONG_VERSION_NUMBER": "it does not speak TLS: write tcp:// here, or tls:// in its `listen`",
}
_CLOSED: Final = "Socket closed"
_CLOSED_WITH_TLS: Final = (
    "it ended the connection at once: maybe the certificate shown to it is not of the authority in its `tls_authority`"
)
_CLOSED_WITHOUT: Final = "it ended the connection at once: if it speaks TLS, write tls:// here"


def reason(endpoint: TcpEndpoint | IpcEndpoint, status: str, details: str) -> str:
    """Say why *endpoint* cannot be reached, of which gRPC says *details* with *status*."""
    for said, meaning in _HANDSHAKE.items():
        if said in details:
            return meaning
    # Only then was there no connection before that could have been closed.
    if "failed to connect" in details.lower() and details.endswith(_CLOSED):
        return _CLOSED_WITH_TLS if isinstance(endpoint, TlsEndpoint) else _CLOSED_WITHOUT
    # Of the words for a connection that was never made only the last say why.
    _, failed, why = details.rpartition("Failed to connect to remote host: ")
    return why if failed else f"{status} ({details})"

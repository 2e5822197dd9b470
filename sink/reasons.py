"""Why a sink cannot be reached, from what gRPC says of it, in words of what to do. Pure."""

from typing import Final

from sink.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint

_NOT_TAKEN: Final = "it does not take the certificate shown to it: is that of the authority in its `tls_authority`?"
#: What gRPC says where two sides do not come together by TLS, and what that means.
_HANDSHAKE: Final = {
    "Hostname Verification": "its certificate is for other addresses: use one of those, or issue one for this address",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not of the authority in `tls_authority`, or out of date",
    "WRONG_VERSION_NUMBER": "it does not speak TLS: write tcp:// here, or tls:// in its `listen`",
    "_ALERT_": _NOT_TAKEN,
}
#: What it says where the other side ends a connection before it was one.
_ENDED: Final = ("Socket closed", "Connection reset by peer")


def reason(endpoint: TcpEndpoint | IpcEndpoint, status: str, details: str) -> str:
    """Say why *endpoint* cannot be reached, of which gRPC says *details* with *status*."""
    for said, meaning in _HANDSHAKE.items():
        if said in details:
            return meaning
    if details.startswith("failed to connect") and details.endswith(_ENDED):
        if isinstance(endpoint, TlsEndpoint):
            return _NOT_TAKEN
        return "it ends the connection at once: if it speaks TLS, write tls:// here"
    # Of the words for a connection that was never made only the last say why.
    _, failed, why = details.rpartition("Failed to connect to remote host: ")
    return why if failed else f"{status} ({details})"

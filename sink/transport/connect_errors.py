"""Turn gRPC's connection errors into a sentence with the remedy. Pure."""

from typing import Final

from sink.transport.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint

_OTHER_ADDRESSES: Final = "its certificate is for other addresses: use one of those, or issue one for this address"
_NOT_TAKEN: Final = "it does not take the certificate shown to it: is that of the authority in its `tls_authority`?"
_NOT_ISSUED: Final = "its certificate is not of the authority in `tls_authority`, or out of date"
#: Parts of gRPC's text for a failed TLS handshake, and their meaning.
_HANDSHAKE: Final = {
    "Hostname Verification": _OTHER_ADDRESSES,
    "is not in peer certificate": _OTHER_ADDRESSES,  # grpcio before 1.74
    "CERTIFICATE_VERIFY_FAILED": _NOT_ISSUED,
    "WRONG_VERSION_NUMBER": "it does not speak TLS: write tcp:// here, or tls:// in its `listen`",
    "_ALERT_": _NOT_TAKEN,
}
_STANDS_STILL: Final = (
    "its process takes connections and answers nothing: continue that process, or restart the server there"
)
#: Parts of gRPC's text for a new connection without an answer: to the first frame, or to TLS.
_SILENT: Final = ("before receiving SETTINGS frame", "Handshake read failed (Endpoint")
#: A ping waits behind the bytes of a frame, so an open connection may be silent because of its line.
_NO_ANSWER: Final = "no answer came in time: its process stands still, or the line is slow"
#: The end of that text for TLS, in older releases of grpcio.
_SILENT_BEFORE: Final = "Handshake read failed"
#: The ends of gRPC's text if the peer closes a connection before it is established.
_ENDED: Final = ("Socket closed", "Connection reset by peer")


def reason(endpoint: TcpEndpoint | IpcEndpoint, status: str, details: str) -> str:
    """Return why *endpoint* cannot be reached, given gRPC's *status* and *details*."""
    for said, meaning in _HANDSHAKE.items():
        if said in details:
            return meaning
    if details.startswith("failed to connect") and details.endswith(_ENDED):
        if isinstance(endpoint, TlsEndpoint):
            return _NOT_TAKEN
        return "it ends the connection at once: if it speaks TLS, write tls:// here"
    if any(said in details for said in _SILENT) or details.endswith(_SILENT_BEFORE):
        return _STANDS_STILL
    if "ping timeout" in details:
        return _NO_ANSWER
    # gRPC's text repeats itself for a failed connection; only its last part has the cause.
    _, failed, why = details.rpartition("Failed to connect to remote host: ")
    if not failed and "connect failed: addr: " in details:
        _, failed, why = details.rpartition(" error: ")
    return why if failed else f"{status} ({details})"


def is_about_certificates(words: str) -> bool:
    """Tell whether *words* end with a reason that names a certificate: the server there runs."""
    return words.endswith((_OTHER_ADDRESSES, _NOT_TAKEN, _NOT_ISSUED))

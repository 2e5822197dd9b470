"""Turn gRPC's connection errors into a sentence with the remedy. Pure."""

from typing import Final

from sink.transport.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint

_OTHER_ADDRESSES: Final = "its certificate is for other addresses: use one of those, or issue one for this address"
_NOT_TAKEN: Final = "it does not take the certificate shown to it: is that of the authority in its `tls_authority`?"
_ENDS_TLS: Final = (
    "it does not take the certificate shown to it, or it is a proxy whose server is away: "
    "is that certificate of the authority in its `tls_authority`?"
)
_ENDS_PLAIN: Final = (
    "it ends the connection at once: if it speaks TLS, write tls:// here; if it is a proxy, start the server behind it"
)
_CLOSED: Final = "the connection was closed: its server has ended, or a firewall or a proxy on the way closed it"
_NOT_ISSUED: Final = (
    "its certificate is not of the authority in `tls_authority`, or not valid now by the clock of this machine"
)
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
_NOT_CONNECTED: Final = "no answer comes from its address: that machine is off, or a firewall drops the packets"
#: A part of gRPC's text for an open connection that did not answer a ping in time.
_NO_PING: Final = "ping timeout"
#: Parts of gRPC's text for any connection, and their meaning.
_SAID: Final = {
    # A new connection has no answer to its first frame, or to TLS.
    "before receiving SETTINGS frame": _STANDS_STILL,
    "Handshake read failed (Endpoint": _STANDS_STILL,
    # An attempt to connect has no answer.
    "connect() timed out": _NOT_CONNECTED,
    "tcp handshaker shutdown": _NOT_CONNECTED,
    "Timeout occurred: FD Shutdown": _NOT_CONNECTED,  # grpcio before 1.74
    "msg:Connection timed out": "its machine no longer answers: that machine is off, or the line is cut or very slow",
    "Cancelling all calls": "it has ended the call, most likely because it stops",
    # A ping waits behind the bytes of a frame, so an open connection may be silent because of its line.
    _NO_PING: "no answer came in time: its process stands still, or the line is slow or loses large packets",
}
#: The end of gRPC's text for TLS without an answer, in older releases of grpcio.
_SILENT_BEFORE: Final = "Handshake read failed"
#: Parts of gRPC's text for a name without an address, in newer and older releases of grpcio.
_UNRESOLVED: Final = ("errors resolving", "DNS resolution failed")
#: The end of that text if no name server answers within the limit of the query.
_QUERY_ENDED: Final = "DNS query cancelled"
#: Words of gRPC before a reason of the system.
_SYSTEM_CALL: Final = "getsockopt(SO_ERROR): "
#: Parts of gRPC's text if the peer closes a connection. The text of one that was not established ends so.
_ENDED: Final = ("Socket closed", "Connection reset by peer")


def reason(endpoint: TcpEndpoint | IpcEndpoint, status: str, details: str) -> str:
    """Return why *endpoint* cannot be reached, given gRPC's *status* and *details*."""
    for said, meaning in _HANDSHAKE.items():
        if said in details:
            return meaning
    if details.startswith("failed to connect") and details.endswith(_ENDED):
        return _ENDS_TLS if isinstance(endpoint, TlsEndpoint) else _ENDS_PLAIN
    for said, meaning in _SAID.items():
        if said in details:
            return meaning
    return _STANDS_STILL if details.endswith(_SILENT_BEFORE) else _other_reason(status, details)


def _other_reason(status: str, details: str) -> str:
    """Return the cause that gRPC's *details* end with."""
    if any(said in details for said in _UNRESOLVED):
        return _unresolved(details)
    # gRPC's text repeats itself for a failed connection; only its last part has the cause.
    _, failed, why = details.rpartition("Failed to connect to remote host: ")
    if not failed and "connect failed: addr: " in details:
        _, failed, why = details.rpartition(" error: ")
    if not failed and "last error: UNKNOWN: unix:" in details:  # grpcio before 1.74
        _, failed, why = details.rpartition(": connect: ")
    if not failed and any(said in details for said in _ENDED):
        return _CLOSED
    return why.removeprefix(_SYSTEM_CALL) if failed else f"{status} ({details})"


def _unresolved(details: str) -> str:
    """Return the sentence for a name without an address; gRPC's *details* end with the cause."""
    cause = details.rpartition(": ")[2].rstrip("])")
    if cause == _QUERY_ENDED:
        return "no name server answers the question for its address: check DNS of this machine"
    return f"no address is found for its name ({cause}): correct the endpoint, or DNS of this machine"


def is_silent(details: str) -> bool:
    """Return whether gRPC's *details* tell that an open connection was lost in silence: by its peer, or a slow line."""
    return _NO_PING in details


def is_about_certificates(words: str) -> bool:
    """Tell whether *words* end with a reason that names a certificate: the server there runs."""
    return words.endswith((_OTHER_ADDRESSES, _NOT_TAKEN, _ENDS_TLS, _NOT_ISSUED))

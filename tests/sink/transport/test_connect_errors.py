"""An error of gRPC becomes a sentence with the cure."""

import pytest

from sink.transport.connect_errors import reason
from sink.transport.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint

PLAIN, TLS, SOCKET = TcpEndpoint("10.0.0.2", 7400), TlsEndpoint("10.0.0.2", 7400), IpcEndpoint("/run/tokyo.sock")
NEVER = "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.2:7400: "


@pytest.mark.parametrize(
    ("endpoint", "details", "words"),
    [
        (PLAIN, NEVER + "Failed to connect to remote host: Connection refused", "Connection refused"),
        (SOCKET, "last error: Failed to connect to remote host: No such file or directory", "No such file"),
        (
            SOCKET,
            "last error: X: unix:/s: connect failed: addr: unix:/s error: Connection refused",
            "Connection refused",
        ),
        (TLS, NEVER + "Tls handshake failed: error:1000007d: CERTIFICATE_VERIFY_FAILED: expired", "or out of date"),
        (TLS, NEVER + "UNAUTHENTICATED: Hostname Verification Check failed.", "for other addresses"),
        (TLS, NEVER + "Tls handshake failed: error:100000f7: WRONG_VERSION_NUMBER: OK", "does not speak TLS"),
        (TLS, NEVER + "error:10000418: TLSV1_ALERT_UNKNOWN_CA", "does not take the certificate"),
        (TLS, NEVER + "Socket closed", "does not take the certificate"),
        (TLS, NEVER + "recvmsg:Connection reset by peer", "does not take the certificate"),
        (PLAIN, NEVER + "Socket closed", "if it speaks TLS, write tls:// here"),
        (PLAIN, NEVER + "connection attempt timed out before receiving SETTINGS frame", "answers nothing"),
        (TLS, NEVER + "Handshake read failed (Endpoint closing)", "answers nothing"),
        (PLAIN, "ping timeout", "its process stands still, or the line is slow"),
        (PLAIN, "Socket closed", "UNAVAILABLE (Socket closed)"),
        (TLS, "recvmsg:Connection reset by peer", "UNAVAILABLE (recvmsg:Connection reset by peer)"),
    ],
)
def test_the_reason_of_a_failed_connection_says_how_to_mend_it(endpoint, details, words):
    assert words in reason(endpoint, "UNAVAILABLE", details)

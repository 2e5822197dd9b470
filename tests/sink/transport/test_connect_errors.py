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
        (
            TLS,
            NEVER + "Tls handshake failed: error:1000007d: CERTIFICATE_VERIFY_FAILED: expired",
            "or not valid now by the clock",
        ),
        (TLS, NEVER + "UNAUTHENTICATED: Hostname Verification Check failed.", "for other addresses"),
        (TLS, NEVER + "Tls handshake failed: error:100000f7: WRONG_VERSION_NUMBER: OK", "does not speak TLS"),
        (TLS, NEVER + "error:10000418: TLSV1_ALERT_UNKNOWN_CA", "does not take the certificate"),
        (TLS, NEVER + "Socket closed", "or it is a proxy whose server is away"),
        (TLS, NEVER + "recvmsg:Connection reset by peer", "does not take the certificate"),
        (PLAIN, NEVER + "Socket closed", "write tls:// here; if it is a proxy, start the server behind it"),
        (PLAIN, NEVER + "connection attempt timed out before receiving SETTINGS frame", "answers nothing"),
        (TLS, NEVER + "Handshake read failed (Endpoint closing)", "answers nothing"),
        (PLAIN, "ping timeout", "its process stands still, or the line is slow or loses large packets"),
        (
            PLAIN,
            "errors resolving tokyo:7400: [field:hostname lookup error:address lookup failed for tokyo:7400: "
            "Domain name not found])",
            "no address is found for its name (Domain name not found): correct the endpoint",
        ),
        (
            PLAIN,
            "DNS resolution failed for tokyo:7400: C-ares status is not ARES_SUCCESS qtype=A name=tokyo "
            "is_balancer=0: Could not contact DNS servers",
            "no address is found for its name (Could not contact DNS servers): correct the endpoint",
        ),
        (PLAIN, "errors resolving a:1: [field:x error:y: DNS query cancelled])", "no name server answers"),
        (PLAIN, NEVER + "Failed to connect to remote host: connect() timed out", "a firewall drops the packets"),
        (TLS, NEVER + "tcp handshaker shutdown", "a firewall drops the packets"),
        (PLAIN, NEVER + "Failed to connect to remote host: Timeout occurred: FD Shutdown", "a firewall drops"),
        (PLAIN, "Stream removed (recvmsg:Connection timed out (110))", "the line is cut or very slow"),
        (PLAIN, "Cancelling all calls", "most likely because it stops"),
        (PLAIN, "Stream removed (Socket closed)", "a firewall or a proxy on the way closed it"),
        (TLS, "recvmsg:Connection reset by peer", "a firewall or a proxy on the way closed it"),
        (PLAIN, "no words", "UNAVAILABLE (no words)"),
    ],
)
def test_the_reason_of_a_failed_connection_says_how_to_mend_it(endpoint, details, words):
    assert words in reason(endpoint, "UNAVAILABLE", details)


def test_a_reason_of_the_system_comes_without_the_name_of_the_call():
    details = NEVER + "Failed to connect to remote host: getsockopt(SO_ERROR): No route to host"
    assert reason(PLAIN, "UNAVAILABLE", details) == "No route to host"

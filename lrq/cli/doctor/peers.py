"""Check the peers: each endpoint can be resolved and reached, and the right site answers there.

The question is a negotiation in a version of the protocol that no side speaks. So the peer names itself and refuses;
nothing is written there.
"""

import socket
import ssl
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from lrq.cli.doctor.certificates import judge, validity
from lrq.cli.doctor.findings import Finding, Severity, ok, problem, told, warning
from queues.errors import PeerUnreachableError, ProtocolError
from queues.names import MAX_NAME_LENGTH
from queues.wire.replication_pb2 import NegotiateRequest, NegotiateResponse, Refusal, SessionId
from queues.words import cleaned
from sink.protocol.versions import SPOKEN
from sink.transport.connect_errors import is_about_certificates
from sink.transport.credentials import Credentials
from sink.transport.endpoints import (
    AttachedEndpoint,
    LocalEndpoint,
    NetworkEndpoint,
    TcpEndpoint,
    TlsEndpoint,
    parse_endpoint,
)
from sink.transport.host_names import unknown_host
from sink.transport.remote import RemoteSink

#: The seconds for the answer of one endpoint.
PATIENCE: Final = 4.0
#: The seconds for the answer to a large question.
LARGE_PATIENCE: Final = 3.0
# A field of 12,288 bytes, more than a packet has room for, with the number 2047. No site reads that field.
_LARGE: Final = b"\xfa\x7f\x80\x60" + bytes(12 * 1024)
_CURE_OF_LARGE: Final = (
    "let ICMP pass all firewalls, lower the MTU of this machine, or set net.ipv4.tcp_mtu_probing = 1 on both machines"
)
_CURE_OF_CERTIFICATES: Final = "docs/tls.md tells how to issue and renew certificates"


def look(
    check: str, own: str, peer: str, text: str, credentials: Credentials | None, now: datetime, setting: str = "peers"
) -> Iterator[Finding]:
    """Yield the findings about the endpoint *text* of the site *peer*; *own* is this site.

    *setting* is the setting with the endpoint.
    """
    endpoint = parse_endpoint(text)
    if isinstance(endpoint, LocalEndpoint):
        yield ok(check, f"{text} is a server in this process, which is not asked")
        return
    if isinstance(endpoint, AttachedEndpoint):
        yield ok(check, f"{peer} attaches itself to the servers of this site; `lrq status` tells whether it has")
        return
    if isinstance(endpoint, TcpEndpoint) and (words := unknown_host(endpoint)):
        yield problem(check, words, f"correct `{setting}`, or DNS")
        return
    yield _reached(check, own, peer, endpoint, credentials, setting)
    if isinstance(endpoint, TlsEndpoint) and credentials is not None:
        yield from _certificate(check, endpoint, credentials, now)


def _reached(
    check: str, own: str, peer: str, endpoint: NetworkEndpoint, credentials: Credentials | None, setting: str
) -> Finding:
    cure = f"start its server, open its port, or correct `{setting}`"
    sink = RemoteSink(endpoint, credentials=credentials, negotiation_timeout=PATIENCE)
    try:
        answer = sink.negotiate(question(own, peer))
    except (PeerUnreachableError, ProtocolError) as error:
        if isinstance(error, ProtocolError):
            return told(check, error, cure)
        return problem(check, str(error), _CURE_OF_CERTIFICATES if is_about_certificates(str(error)) else cure)
    finally:
        sink.close()
    found = answered(check, peer, str(endpoint), answer, setting)
    if found.level is Severity.OK and isinstance(endpoint, TcpEndpoint):
        return _passed_large(check, own, peer, endpoint, credentials) or found
    return found


def _passed_large(
    check: str, own: str, peer: str, endpoint: TcpEndpoint, credentials: Credentials | None
) -> Finding | None:
    """Return a problem if the endpoint, which answers a small question, does not answer a large one."""
    sink = RemoteSink(endpoint, credentials=credentials, negotiation_timeout=LARGE_PATIENCE)
    try:
        sink.negotiate(NegotiateRequest.FromString(question(own, peer).SerializeToString() + _LARGE))
    except (PeerUnreachableError, ProtocolError):
        return problem(check, f"small packets reach {endpoint}, and large ones get no answer", _CURE_OF_LARGE)
    else:
        return None
    finally:
        sink.close()


def question(own: str, peer: str) -> NegotiateRequest:
    """Return a question of *own* for the site *peer*. Pure."""
    return NegotiateRequest(protocol=0, session=SessionId(source=own, sink=peer))


def answered(check: str, peer: str, endpoint: str, answer: NegotiateResponse, setting: str = "peers") -> Finding:
    """Judge the *answer* of an endpoint to the question. Pure."""
    site = cleaned(answer.site, MAX_NAME_LENGTH)
    if answer.refusal.kind == Refusal.WRONG_SITE:
        return told(check, cleaned(answer.refusal.reason))
    if site != peer:
        named = f"site {site!r}" if site else "no site"
        return problem(check, f"{named} answers at {endpoint}", f"correct `{setting}`, or the site id there")
    if not SPOKEN.oldest <= answer.protocol <= SPOKEN.newest:
        return warning(
            check,
            f"{peer} at {endpoint} speaks version {answer.protocol} of the protocol, this site {SPOKEN}",
            "upgrade lrq at the older site before the other one drops a version",
        )
    return ok(check, f"site {peer} answers at {endpoint}")


def _certificate(check: str, endpoint: TlsEndpoint, credentials: Credentials, now: datetime) -> Iterator[Finding]:
    """Yield the finding about the certificate that the peer shows; the answer above tells whether it is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(credentials.certificate, credentials.key, password="")
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((endpoint.host, endpoint.port), timeout=PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname=endpoint.host) as line,
        ):
            shown = line.getpeercert(binary_form=True)
    except OSError:
        return  # the answer above has the reason
    if shown:
        yield judge(check, f"the certificate of {endpoint}", validity(shown), now)

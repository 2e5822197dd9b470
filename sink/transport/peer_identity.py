"""Name the callers, and reject sessions whose source the peer's certificate does not name. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import unquote

from queues.names import MAX_NAME_LENGTH
from queues.wire import replication_pb2 as pb

#: Returns the refusal for a session whose source is not verified; None for a verified one.
Verify = Callable[[pb.SessionId], pb.Refusal | None]

_NAMES = ("x509_common_name", "x509_subject_alternative_name")


def accept_any(session: pb.SessionId) -> None:
    """Accept every session."""


def verifier_of(shown: Mapping[str, Iterable[bytes]]) -> Verify:
    """Return a check that rejects sessions whose source the peer's certificate does not name.

    *shown* is gRPC's description of the peer; without TLS the check accepts every session.
    """
    names = certified_names(shown)
    if names is None:
        return accept_any

    def verify(session: pb.SessionId) -> pb.Refusal | None:
        if session.source in names:
            return None
        named = ", ".join(repr(name) for name in sorted(names)) or "no site"
        # The peer chooses the text, so its length is limited here.
        told = session.source[: MAX_NAME_LENGTH + 1]
        reason = (
            f"the certificate shown names {named}, not site {told!r}: "
            "use one that does (tls_verify_site is on at the sink)"
        )
        return pb.Refusal(kind=pb.Refusal.WRONG_SITE, reason=reason)

    return verify


#: The longest text of a certificate's names in a caller's name.
_LONGEST: Final = 200


def caller_of(peer: str, shown: Mapping[str, Iterable[bytes]]) -> str:
    """Return the name of a caller: the names in its certificate, or its address without the port.

    *peer* is gRPC's text for the connection, such as `ipv4:10.0.0.2:40000`. The name is empty at a Unix socket: there,
    all callers are processes of this user.
    """
    names = certified_names(shown)
    if names is not None:
        return f"the certificate of {', '.join(sorted(names))[:_LONGEST] or 'no site'}"
    family, _, address = peer.partition(":")
    return unquote(address).rpartition(":")[0] if family in ("ipv4", "ipv6") else ""


def certified_names(shown: Mapping[str, Iterable[bytes]]) -> frozenset[str] | None:
    """Return the common name and the alternative names of the peer's certificate; None without TLS."""
    if b"ssl" not in shown.get("transport_security_type", ()):
        return None
    found = (name for key in _NAMES for name in shown.get(key, ()))
    return frozenset(name.decode(errors="replace") for name in found if name)

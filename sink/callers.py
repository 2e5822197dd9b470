"""Who calls, by the certificate: a source is believed to be a site only if its certificate names it. Pure."""

from collections.abc import Callable, Iterable, Mapping

from queues.names import MAX_NAME_LENGTH
from queues.wire import replication_pb2 as pb

#: Tells why a session is not believed to be whose it says it is; None when it is.
Doubt = Callable[[pb.SessionId], pb.Refusal | None]

_NAMES = ("x509_common_name", "x509_subject_alternative_name")


def believe(session: pb.SessionId) -> None:
    """Believe everyone who got in."""


def doubt_of(shown: Mapping[str, Iterable[bytes]]) -> Doubt:
    """Return what doubts the sessions of one call, by what gRPC knows of the caller; without TLS nothing does."""
    if b"ssl" not in shown.get("transport_security_type", ()):
        return believe
    # The common name and the alternative ones.
    found = (name for key in _NAMES for name in shown.get(key, ()))
    names = frozenset(name.decode(errors="replace") for name in found if name)

    def doubt(session: pb.SessionId) -> pb.Refusal | None:
        if session.source in names:
            return None
        named = ", ".join(repr(name) for name in sorted(names)) or "nobody"
        # Whoever calls may say anything, of any length.
        told = session.source[: MAX_NAME_LENGTH + 1]
        reason = (
            f"the certificate shown names {named}, not site {told!r}: "
            "use one that does (tls_verify_site is on at the sink)"
        )
        return pb.Refusal(kind=pb.Refusal.WRONG_SITE, reason=reason)

    return doubt

"""Reject sessions whose source the peer's certificate does not name. Pure."""

from collections.abc import Callable, Iterable, Mapping

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
    if b"ssl" not in shown.get("transport_security_type", ()):
        return accept_any
    # The common name and the alternative names.
    found = (name for key in _NAMES for name in shown.get(key, ()))
    names = frozenset(name.decode(errors="replace") for name in found if name)

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

"""What a site shows to others where it speaks TLS, and whom it believes: PEM files that may be renewed at any time."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from queues.errors import ConfigurationError
from queues.logs import logger
from sink.endpoints import TlsEndpoint

log = logger("lrq.sink")


class Pems(NamedTuple):
    """What the files of `Credentials` hold."""

    key: bytes
    certificate: bytes
    authority: bytes

    def __repr__(self) -> str:
        """Show nothing of it: a key is secret."""
        return "Pems(...)"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files of a site, in PEM.

    Attributes:
        certificate: what it shows, followed by those between it and the authority, if any. As a sink it is reached
            under a name or address that stands in there.
        key: of this certificate, without a password.
        authority: whose certificates others must show. Who has one is believed to be the site that it says it is.
        verify_site: as a sink, believe a source only if its certificate names its site, as common name or as one of
            the alternative names.
    """

    certificate: Path
    key: Path
    authority: Path
    verify_site: bool = False

    def read(self) -> Pems:
        """Return what the files hold; raise `ConfigurationError`, which names the one that cannot be used."""
        pems = Pems(_read(self.key), _read(self.certificate), _read(self.authority))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # A key with a password would be asked for at the terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{self.certificate} is no certificate in PEM, or {self.key} not its key without a password"
            ) from error
        try:
            context.load_verify_locations(self.authority)
        except OSError as error:
            raise ConfigurationError(f"{self.authority} holds no certificate in PEM") from error
        return pems

    def renewals(self, known: Pems) -> Callable[[], Pems | None]:
        """Return a function that reads the files again: what they hold now, or None while that is what it was last.

        Files that cannot be used, as in the middle of a renewal, change nothing; a warning tells of them.
        """

        def renewed() -> Pems | None:
            nonlocal known
            try:
                found = self.read()
            except ConfigurationError as error:
                log.warning("the certificate of before is still in use", reason=str(error))
                return None
            if found == known:
                return None
            known = found
            return found

        return renewed


def needed(credentials: Credentials | None, endpoint: TlsEndpoint) -> Credentials:
    """Return *credentials*; raise `ConfigurationError` if there are none."""
    if credentials is None:
        raise ConfigurationError(f"{endpoint} needs a certificate: set tls_certificate, tls_key and tls_authority")
    return credentials


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error

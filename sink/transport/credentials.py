"""The TLS files of a site: its certificate and its trusted authority. The files may be renewed at any time."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from queues.errors import ConfigurationError
from queues.logs import logger
from sink.transport.endpoints import TlsEndpoint

log = logger("lrq.sink")

#: The readings of files that change meanwhile.
_TRIES: Final = 5


class Pems(NamedTuple):
    """The content of the files of `Credentials`."""

    key: bytes
    certificate: bytes
    authority: bytes

    def __repr__(self) -> str:
        """Return a text without the content, because the key is secret."""
        return "Pems(...)"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The TLS files of a site, in PEM.

    Attributes:
        certificate: the site's certificate, then any intermediate ones up to the authority. Peers use one of its names
            or addresses as the sink's endpoint
        key: the private key, without a password
        authority: peers must show a certificate of this authority. With one, a peer may claim to be any site.
        verify_site: as a sink, accept a source only if its certificate names its site. The name is the common name or
            one of the alternative names
    """

    certificate: Path
    key: Path
    authority: Path
    verify_site: bool = False

    def read(self) -> Pems:
        """Return the content of the files; raise `ConfigurationError`, which names the unusable file.

        Files that change during the call are read again, a few times.
        """
        for _ in range(_TRIES):
            pems = self._read()
            self._check()
            # gRPC ends the process at an empty key or certificate, so exactly the checked content may go there.
            if self._read() == pems:
                return pems
        raise ConfigurationError(f"{self.certificate}, {self.key} or {self.authority} is being written: try again")

    def _read(self) -> Pems:
        return Pems(_read(self.key), _read(self.certificate), _read(self.authority))

    def _check(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Without this argument, a key with a password would prompt at the terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(self._why_no_pair(error)) from error
        try:
            context.load_verify_locations(self.authority)
        except OSError as error:
            raise ConfigurationError(
                f"{self.authority} holds no certificate in PEM: bring the file of the authority there"
            ) from error

    def _why_no_pair(self, error: Exception) -> str:
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            return f"{self.key} is not the key of {self.certificate}: bring both files of one certificate there"
        return (
            f"{self.certificate} is no certificate in PEM, or {self.key} no key in PEM without a password: "
            "bring other files there"
        )

    def renewals(self, known: Pems) -> Callable[[], Pems | None]:
        """Return a function that reads the files again and returns their content, or None if it is unchanged.

        Unusable files, for example during a renewal, count as unchanged, and a warning is logged.
        """

        def renewed() -> Pems | None:
            nonlocal known
            try:
                found = self.read()
            except ConfigurationError as error:
                log.warning("the earlier certificate stays in use", reason=str(error))
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

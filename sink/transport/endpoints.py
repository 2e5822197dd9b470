"""Addresses of sinks: `tcp://host:port`, `tls://host:port`, `ipc:///path.sock`, `local:<site>`, `attached:<site>`.

Pure.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from queues.errors import ConfigurationError, InvalidNameError
from queues.names import SiteId, site_id
from queues.words import is_unicode

#: The longest path of a Unix socket that every system accepts, in bytes.
MAX_SOCKET_PATH: Final = 103


@dataclass(frozen=True, slots=True)
class TcpEndpoint:
    """A host and port; for a listening server, port 0 lets the system choose one."""

    host: str
    port: int

    @property
    def address(self) -> str:
        """The address in gRPC's form."""
        # gRPC takes the zone of a link-local address escaped only.
        host = f"[{self.host.replace('%', '%25')}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        """Return the text that `parse_endpoint` reads."""
        return f"tcp://{self.address}"


@dataclass(frozen=True, slots=True)
class TlsEndpoint(TcpEndpoint):
    """A host and port where both sides speak TLS and show a certificate."""

    def __str__(self) -> str:
        """Return the text that `parse_endpoint` reads."""
        return f"tls://{self.address}"


@dataclass(frozen=True, slots=True)
class IpcEndpoint:
    """A Unix socket on this machine."""

    path: str

    @property
    def address(self) -> str:
        """The address in gRPC's form, a URI: other characters than those of plain names are escaped there."""
        return f"unix:{quote(self.path)}"

    def __str__(self) -> str:
        """Return the text that `parse_endpoint` reads."""
        return f"ipc://{self.path}"


@dataclass(frozen=True, slots=True)
class LocalEndpoint:
    """A server in this process."""

    site: SiteId

    def __str__(self) -> str:
        """Return the text that `parse_endpoint` reads."""
        return f"local:{self.site}"


@dataclass(frozen=True, slots=True)
class AttachedEndpoint:
    """A server that attaches itself to its source, which cannot reach it."""

    site: SiteId

    def __str__(self) -> str:
        """Return the text that `parse_endpoint` reads."""
        return f"attached:{self.site}"


NetworkEndpoint = TcpEndpoint | IpcEndpoint
Endpoint = NetworkEndpoint | LocalEndpoint | AttachedEndpoint


def parse_endpoint(text: str) -> Endpoint:
    """Parse an endpoint; raise `ConfigurationError`, which names the mistake."""
    scheme, separator, rest = text.partition(":")
    if separator and scheme in _OVER_TCP and rest.startswith("//"):
        return tcp_endpoint(text)
    if separator and scheme == "ipc" and rest.startswith("//"):
        return _ipc(text, rest.removeprefix("//"))
    if separator and scheme == "local":
        return LocalEndpoint(_site(text, rest))
    if separator and scheme == "attached":
        return AttachedEndpoint(_site(text, rest))
    raise ConfigurationError(
        f"{text!r} is not an endpoint: write tcp://host:port, tls://host:port, ipc:///path/of/socket, local:site or "
        "attached:site"
    )


def network_endpoint(text: str) -> NetworkEndpoint:
    """Parse an endpoint at which a server listens; raise `ConfigurationError` for others."""
    endpoint = parse_endpoint(text)
    if isinstance(endpoint, AttachedEndpoint):
        raise ConfigurationError(
            f"{text!r} names a server that attaches itself: write tcp://host:port, tls://host:port or ipc:///path"
        )
    if isinstance(endpoint, LocalEndpoint):
        raise ConfigurationError(
            f"{text!r} names a server in this process: write tcp://host:port, tls://host:port or ipc:///path"
        )
    return endpoint


_OVER_TCP: Final = {"tcp": TcpEndpoint, "tls": TlsEndpoint}


def tcp_endpoint(text: str) -> TcpEndpoint:
    """Parse tcp://host:port or tls://host:port; raise `ConfigurationError` if it is malformed."""
    _require_unicode(text)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigurationError(f"{text!r} is not an endpoint: {error}") from error
    extra = parts.path or parts.query or parts.fragment or parts.username is not None
    if not host or port is None or extra:
        scheme = parts.scheme
        raise ConfigurationError(
            f"{text!r} is not an endpoint: write {scheme}://host:port, such as {scheme}://10.0.0.2:7400"
        )
    return _OVER_TCP[parts.scheme](_with_plain_zone(host), port)


def _require_unicode(text: str) -> None:
    if not is_unicode(text):
        raise ConfigurationError(f"{text!r} is not an endpoint: a name has bytes that are not UTF-8")


def _with_plain_zone(host: str) -> str:
    """Return *host* with the zone of a link-local address as the system takes it: %eth0, not the %25eth0 of URLs."""
    address, escaped, zone = host.partition("%25")
    return f"{address}%{zone}" if escaped and zone and ":" in address else host


def _ipc(text: str, path: str) -> IpcEndpoint:
    _require_unicode(text)
    if not path.startswith("/"):
        raise ConfigurationError(f"{text!r} has no absolute path: write ipc:///path/of/socket, with three slashes")
    size = len(path.encode())
    if size > MAX_SOCKET_PATH:
        raise ConfigurationError(f"{text!r}: the path has {size} bytes, a Unix socket takes {MAX_SOCKET_PATH}")
    return IpcEndpoint(path)


def _site(text: str, site: str) -> SiteId:
    try:
        return site_id(site)
    except InvalidNameError as error:
        raise ConfigurationError(f"{text!r} is not an endpoint: {error}") from error

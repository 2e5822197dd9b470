"""Ask this machine for the addresses of a host, to tell why an endpoint cannot be used."""

import socket

from sink.transport.endpoints import TcpEndpoint


def unknown_host(endpoint: TcpEndpoint) -> str:
    """Return in words that the host of *endpoint* has no address; empty if it has one."""
    try:
        socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        return f"the host {endpoint.host!r} is unknown ({error.strerror})"
    except UnicodeError:
        # Python encodes the name first, and refuses an empty or too long part.
        return f"the host {endpoint.host!r} is unknown (a part of the name is empty or too long)"
    return ""

"""Listens at endpoints: TCP ports, with or without TLS, and Unix sockets."""

import os
import socket
import threading
from dataclasses import replace
from pathlib import Path

import grpc

from queues.errors import ConfigurationError
from sink.transport.credentials import Credentials, Pems, needed
from sink.transport.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint
from sink.transport.host_names import unknown_host

_masking = threading.Lock()


def bind(
    server: grpc.Server, endpoint: TcpEndpoint | IpcEndpoint, credentials: Credentials | None
) -> TcpEndpoint | IpcEndpoint:
    """Listen at *endpoint*; return the endpoint with port 0 replaced by the real port.

    Only this user may connect to a Unix socket. Raises `ConfigurationError` if listening is impossible.
    """
    shown = _shown(needed(credentials, endpoint)) if isinstance(endpoint, TlsEndpoint) else None
    try:
        if isinstance(endpoint, IpcEndpoint):
            port = _bind_socket(server, endpoint)
        elif shown is None:
            port = server.add_insecure_port(endpoint.address)
        else:
            port = server.add_secure_port(endpoint.address, shown)
    except RuntimeError as error:
        raise ConfigurationError(f"cannot listen at {endpoint}: {_why_not(endpoint)}") from error
    return replace(endpoint, port=port) if isinstance(endpoint, TcpEndpoint) else endpoint


def _why_not(endpoint: TcpEndpoint | IpcEndpoint) -> str:
    if isinstance(endpoint, TcpEndpoint) and (words := unknown_host(endpoint)):
        return f"{words}: correct `listen`, or DNS of this machine"
    return "the address is in use, not of this machine, or not permitted"


def _bind_socket(server: grpc.Server, endpoint: IpcEndpoint) -> int:
    # gRPC binds and listens in one step, so the mask must hold before. The mask counts for the whole process, so
    # the mask leaves this user all rights. The mode of the file is set afterwards.
    with _masking:
        before = os.umask(0o077)
        try:
            port = server.add_insecure_port(endpoint.address)
        finally:
            os.umask(before)
    Path(endpoint.path).chmod(0o600)
    return port


def _shown(credentials: Credentials) -> grpc.ServerCredentials:
    """Return gRPC's credentials; gRPC checks for renewed files at every connection."""
    first = credentials.read()
    renewed = credentials.renewals(first)

    def look() -> grpc.ServerCertificateConfiguration | None:
        pems = renewed()
        return None if pems is None else _configuration(pems)

    # None means no change to gRPC; its type stubs omit that.
    return grpc.dynamic_ssl_server_credentials(_configuration(first), look, True)  # type: ignore[arg-type]


def _configuration(pems: Pems) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pems.key, pems.certificate)], pems.authority)


def clear(endpoint: TcpEndpoint | IpcEndpoint) -> None:
    """Remove the socket file of a dead process; raise `ConfigurationError` for any other file at its place."""
    if not isinstance(endpoint, IpcEndpoint):
        return
    path = Path(endpoint.path)
    if not path.exists():
        return
    if not path.is_socket():
        raise ConfigurationError(f"cannot listen at {endpoint}: there is a file that is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(endpoint.path)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot listen at {endpoint}: {error.strerror}") from error
        else:
            raise ConfigurationError(f"cannot listen at {endpoint}: another process does")

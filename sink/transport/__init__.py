"""The sink over gRPC: service, client, TLS, endpoints."""

import sink.transport.quiet_grpc  # noqa: F401 - before any other module loads gRPC

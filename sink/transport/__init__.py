"""The sink over gRPC: service, client, TLS, endpoints."""

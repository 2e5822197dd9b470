"""The metrics of a server for Prometheus: their values, and the HTTP server that tells them."""

"""The log-entry queue of a source: written by applications, closed in ticks and read by its server."""

"""Sinks that no source can reach: such a sink opens the connection, and the source sends over it."""

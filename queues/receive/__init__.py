"""The receive queues of a sink: filled by the sink's writer, emptied by subscribers."""

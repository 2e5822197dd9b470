"""The receive queues of a sink: filled by the writer, emptied by subscribers."""

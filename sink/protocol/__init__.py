"""The rules of a sink for log frames and snapshot frames. Pure."""

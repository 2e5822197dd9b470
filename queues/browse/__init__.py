"""Read any queue without changing it."""

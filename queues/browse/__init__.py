"""Looking into any queue without changing it."""

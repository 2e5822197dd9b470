"""lrq measured beside its alternatives: `make bench`."""

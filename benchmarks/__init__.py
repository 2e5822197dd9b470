"""lrq measured beside what one would use instead: `make bench`."""

"""The experiments; each writes its numbers into a `Book`."""

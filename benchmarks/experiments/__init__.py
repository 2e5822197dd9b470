"""What is measured; each experiment writes its numbers into a `Book`."""

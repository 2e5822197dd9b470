"""A process without a free file descriptor."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def no_free_descriptor() -> Iterator[None]:
    """Refuse each new file descriptor, while the open ones go on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"), open("/dev/null"):
            pass
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

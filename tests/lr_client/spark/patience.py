"""Patience with Spark, which gives a worker a fixed ten seconds to start; a busy machine sometimes needs more."""

from collections.abc import Callable
from typing import Final, TypeVar

from pyspark.errors import PySparkException

_TRIES: Final = 10
_Made = TypeVar("_Made")


def patiently(act: Callable[[], _Made]) -> _Made:
    """Return the result of *act*, and repeat it if a worker of Spark has started too late."""
    for left in reversed(range(_TRIES)):
        try:
            return act()
        except PySparkException as error:
            if not left or "connect back" not in str(error):
                raise
    raise AssertionError

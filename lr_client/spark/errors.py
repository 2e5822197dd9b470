"""Reduce Spark's long failure messages to one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from queues.errors import SnapshotFailedError, first_line


@contextmanager
def in_one_sentence(*, only_of_spark: bool = False) -> Iterator[None]:
    """Turn errors of the block into `SnapshotFailedError` with one sentence: the cause.

    With *only_of_spark*, errors of other classes than PySpark's pass through unchanged.
    """
    try:
        yield
    except SnapshotFailedError:
        raise
    except Exception as error:
        if only_of_spark and not type(error).__module__.startswith(("py4j.", "pyspark.")):
            raise
        raise SnapshotFailedError(sentence(str(error))) from error


def sentence(printed: str) -> str:
    """Return the line with the cause from *printed*, a failure with stack traces of Python and Java."""
    ours = re.findall(r"^queues\.errors\.\w+: (.+)$", printed, re.MULTILINE)
    if ours:
        return str(ours[-1])
    python = re.findall(r"^(?!org\.|java\.|scala\.)[A-Za-z_][\w.]*(?:Error|Exception): .+$", printed, re.MULTILINE)
    if python:
        return f"the Spark job failed: {python[-1]}"
    java = re.search(r"^: (?:[\w.]+: )?(.+)$", printed, re.MULTILINE)
    return f"the Spark job failed: {java[1] if java else first_line(printed)}"

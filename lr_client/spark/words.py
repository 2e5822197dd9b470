"""What Spark prints of a failure, in one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from queues.errors import SnapshotFailedError


@contextmanager
def in_one_sentence(*, only_of_spark: bool = False) -> Iterator[None]:
    """Turn what Spark raises into `SnapshotFailedError` with the sentence that matters.

    *only_of_spark* leaves errors alone that are not of PySpark's classes.
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
    """Find the line that tells the cause in what Spark printed of a failure, stack traces of two languages included."""
    ours = re.findall(r"^queues\.errors\.\w+: (.+)$", printed, re.MULTILINE)
    if ours:
        return str(ours[-1])
    python = re.findall(r"^(?!org\.|java\.|scala\.)[A-Za-z_][\w.]*(?:Error|Exception): .+$", printed, re.MULTILINE)
    if python:
        return f"the Spark job failed: {python[-1]}"
    java = re.search(r"^: (?:[\w.]+: )?(.+)$", printed, re.MULTILINE)
    first = printed.strip().partition("\n")[0]
    return f"the Spark job failed: {java[1] if java else first}"

"""Sessions of Spark Connect, whose server may end them: when it restarts, and after an hour without work."""

import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The message of an error has this where the server does not know the session, or has ended it.
_NO_SESSION: Final = "[INVALID_HANDLE."


def is_client() -> bool:
    """Return whether this process reaches Spark by Spark Connect only, as far as can be known before its session."""
    from pyspark.sql.utils import is_remote

    return is_remote() or "SPARK_REMOTE" in os.environ


def is_connected(spark: "SparkSession") -> bool:
    """Return whether *spark* reaches its cluster by Spark Connect, so that this process has no Java of Spark."""
    return getattr(spark, "sparkContext", None) is None


def has_ended(spark: "SparkSession") -> bool:
    """Return whether *spark* is a session of Spark Connect that has ended; asks the server.

    Raises PySpark's error if there is no answer.
    """
    if not is_connected(spark):
        return False
    from pyspark.errors import PySparkException

    session: Any = spark
    try:
        _ = session.version
    except PySparkException as error:
        # PySpark has no class for this condition, so `getCondition` may be None.
        if session.is_stopped or _NO_SESSION in str(error):
            return True
        raise
    return False

"""The virtual machine of Java behind this process's Spark session, which may die alone, as by lack of memory."""

from typing import Any


def has_died() -> bool:
    """Return whether PySpark still refers to a virtual machine that this process has started and that has ended."""
    try:
        from pyspark import SparkContext
    except ImportError:  # the package `pyspark-client` has none
        return False

    machine = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - PySpark has no public name for it
    return machine is not None and machine.poll() is not None


def forget_if_dead() -> None:
    """Let PySpark start a new virtual machine if the present one has died.

    PySpark does not look: its builder returns the dead session for ever, and `stop` of that session fails.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession, SQLContext

    core: Any = SparkContext
    sessions: Any = SparkSession
    older: Any = SQLContext
    # The lock: another thread may start the new machine, which must stay.
    with core._lock:  # noqa: SLF001 - PySpark has no public names for these
        if not has_died():
            return
        sessions._instantiatedSession = sessions._activeSession = older._instantiatedContext = None  # noqa: SLF001
        core._active_spark_context = core._gateway = core._jvm = None  # noqa: SLF001

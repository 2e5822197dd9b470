"""Set up Spark: check Java and PySpark, choose the workers' interpreter, and start a small local session."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lr_client.spark.connect import is_client
from lr_client.spark.machine import forget_if_dead
from queues.errors import MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The oldest Java version that Spark 4 supports.
OLDEST_JAVA: Final = 17
_INSTALL = (
    "install a JDK or JRE of version 17 or newer (Debian and Ubuntu: `apt-get install openjdk-17-jre-headless`, "
    "macOS: `brew install openjdk@17`) and let JAVA_HOME or PATH point to it"
)


def ensure_java() -> Path:
    """Return the `java` that Spark will use; raise `MissingDependencyError` when there is none or it is too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not shutil.which(java):
        where = f"JAVA_HOME ({home}) has none" if home else "PATH has none"
        raise MissingDependencyError(f"Spark needs Java {OLDEST_JAVA} or newer, and {where}: {_INSTALL}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    version = java_version(answer.stderr + answer.stdout)
    if version is None or version < OLDEST_JAVA:
        found = f"is version {version}" if version else "does not tell its version"
        raise MissingDependencyError(f"Spark needs Java {OLDEST_JAVA} or newer, and {java} {found}: {_INSTALL}")
    return Path(java)


def java_version(printed: str) -> int | None:
    """Return the feature release from the output of `java -version` (8 for "1.8.0_292"); None if there is none."""
    found = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(found[1]) if found else None


def ensure_pyspark() -> None:
    """Raise `MissingDependencyError` unless PyArrow and a recent PySpark are installed."""
    try:
        import pyarrow  # type: ignore[import-untyped]  # noqa: F401
        from pyspark.sql.datasource import DataSourceArrowWriter  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f"snapshots by Spark need PySpark 4.2 and PyArrow ({error}): run `pip install 'lrq[spark]'`"
        ) from error


def prepare() -> None:
    """Check Java and PySpark, let Spark's workers run this interpreter, and forget a session whose Java has died.

    The variables `PYSPARK_PYTHON` and `PYSPARK_DRIVER_PYTHON` keep their values if they are set. Raises
    `MissingDependencyError`, whose text says how to install the missing part. A client of Spark Connect needs no Java.
    """
    ensure_pyspark()
    if is_client():
        return
    ensure_java()
    forget_if_dead()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])


def local_session(
    cores: int = 2, *, memory: str = "1g", log_level: str = "ERROR", options: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return this process's Spark session, or start a small one without a web page.

    *memory* is the driver's, in Spark's notation; a failed task is tried once more. *options* are Spark's, and override
    the ones set here. Raises `MissingDependencyError` without Java 17, PySpark or PyArrow.

        provider = SparkSnapshotProvider(local_session, build)
    """
    prepare()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="lrq-spark-") as folder:
        quiet = Path(folder) / "log4j2.properties"
        quiet.write_text(_LOGGING.format(level=log_level), encoding="ascii")
        chosen = {
            "spark.driver.memory": memory,
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet.as_uri()} {_QUICK_JAVA}",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": str(cores),
            "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
            **(options or {}),
        }
        builder = SparkSession.builder.appName("lrq").master(f"local[{cores},2]")
        for name, value in chosen.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


# The optimising compiler costs more time than it saves in jobs of seconds.
_QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = console
logger.repl.name = org.apache.spark.api.python.PythonGatewayServer
logger.repl.level = {level}
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex{{1}}
"""

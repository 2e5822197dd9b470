"""What the demonstration needs beyond the library, looked for before anything is started."""

from importlib.util import find_spec

from lr_client.spark.session import ensure_java, ensure_pyspark
from queues.errors import MissingDependencyError


def ensure() -> None:
    """Raise `MissingDependencyError` with one sentence on what is missing and how to get it."""
    if find_spec("airportsdata") is None:
        raise MissingDependencyError("the demonstration needs the airports of the world: run `pip install 'lrq[demo]'`")
    ensure_pyspark()
    ensure_java()

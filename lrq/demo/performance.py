"""One run of the demonstration; no process and no file outlives it."""

import json
import sys
import tempfile
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path

from lr_client.spark.session import ensure_java, ensure_pyspark
from lrq.demo.children import Children
from lrq.demo.interruptions import ignore_interruptions, interruptible
from lrq.demo.report import StoryReport
from lrq.demo.screen import Screen, screen_for
from lrq.demo.sites import Places
from lrq.demo.story import Story, prepare
from lrq.demo.watch import Watcher
from queues.errors import MissingDependencyError


def perform(*, json_output: bool, databases: str | None) -> int:
    """See `lrq.demo.run`."""
    screen = screen_for(json_output=json_output)
    with interruptible():
        _require_installed()
        report = _perform(screen, databases)
    screen.conclude(report)
    if json_output:
        sys.stdout.write(json.dumps(report.as_json()) + "\n")
    return 0 if report.ok else 1


def _require_installed() -> None:
    """Raise `MissingDependencyError` if airportsdata, PySpark or Java is missing."""
    if find_spec("airportsdata") is None:
        raise MissingDependencyError("the demonstration needs the airports of the world: run `pip install 'lrq[demo]'`")
    ensure_pyspark()
    ensure_java()


def _perform(screen: Screen, databases: str | None) -> StoryReport:
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="lrq-demo-", ignore_cleanup_errors=True))
        places = Places(Path(folder), databases or f"sqlite:///{folder}/{{site}}.db")
        held.enter_context(screen)
        prepare(places)
        watcher = held.enter_context(closing(Watcher(places)))
        children = held.enter_context(Children(places.folder, "lrq.demo.process", folder, places.databases))
        held.callback(ignore_interruptions)
        try:
            return Story(children, watcher, screen).tell()
        except KeyboardInterrupt:
            screen.say("interrupted: all processes end now")
            raise

"""One performance of the demonstration: whatever becomes of it, nothing is left behind."""

import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from lrq_cli.demo import requirements
from lrq_cli.demo.children import Children
from lrq_cli.demo.report import Report
from lrq_cli.demo.screen import Screen, screen_for
from lrq_cli.demo.sites import Places
from lrq_cli.demo.story import Story, prepare
from lrq_cli.demo.watch import Watcher

_ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def perform(*, json_output: bool, databases: str | None) -> int:
    """See `lrq_cli.demo.run`."""
    screen = screen_for(json_output=json_output)
    with _interruptible():
        requirements.ensure()
        report = _perform(screen, databases)
    screen.conclude(report)
    if json_output:
        sys.stdout.write(json.dumps(report.as_json()) + "\n")
    return 0 if report.ok else 1


def _perform(screen: Screen, databases: str | None) -> Report:
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="lrq-demo-", ignore_cleanup_errors=True))
        places = Places(Path(folder), databases or f"sqlite:///{folder}/{{site}}.db")
        held.enter_context(screen)
        prepare(places)
        watcher = held.enter_context(closing(Watcher(places)))
        children = held.enter_context(Children(places))
        held.callback(_ignore_interruptions)
        try:
            return Story(children, watcher, screen).tell()
        except KeyboardInterrupt:
            screen.say("interrupted: all processes end now")
            raise


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn every request to end into a `KeyboardInterrupt`; restore what was before."""
    before = {ending: signal.signal(ending, _interrupt) for ending in _ENDINGS}
    try:
        yield
    finally:
        for ending, disposition in before.items():
            signal.signal(ending, disposition)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _ignore_interruptions() -> None:
    """Let nothing come between us and the cleaning up."""
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN)

"""One run of the ring's demonstration; no process and no file outlives it."""

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from lrq.demo.children import Children
from lrq.demo.interruptions import ignore_interruptions, interruptible
from lrq.demo.ring.founders import prepare
from lrq.demo.ring.meter import Meter
from lrq.demo.ring.narrator import Narrator
from lrq.demo.ring.places import RingPlaces
from lrq.demo.ring.report import RingReport
from lrq.demo.ring.story import RingStory


def perform(*, json_output: bool) -> int:
    """See `lrq.demo.ring.run`."""
    narrator = Narrator(sys.stderr if json_output else sys.stdout)
    with interruptible():
        report = _perform(narrator)
    for words in report.in_words():
        narrator.conclude(words)
    if json_output:
        sys.stdout.write(json.dumps(report.as_json()) + "\n")
    return 0 if report.ok else 1


def _perform(narrator: Narrator) -> RingReport:
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="lrq-demo-", ignore_cleanup_errors=True))
        places = RingPlaces(Path(folder))
        prepare(places)
        children = held.enter_context(Children(places.folder, "lrq.demo.ring.process", folder))
        meter = held.enter_context(Meter(places.members))
        held.callback(ignore_interruptions)
        try:
            return RingStory(children, places, meter, narrator).tell()
        except KeyboardInterrupt:
            narrator.say("interrupted: all processes end now")
            raise

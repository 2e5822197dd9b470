"""Sites with links, snapshots, parked transactions and hostile texts, for tests of the console."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lr_client import RoutingQueueListener
from lrq.testing import LocalSite, pair
from queues.receive.parked import parked
from tests.waiting import eventually

#: A payload and an error that would run as a script where they are not escaped.
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"&"


class Careful(RoutingQueueListener):
    """Refuses each payload with the word `poison`."""

    client_name = "policy"

    def __init__(self) -> None:
        self.cured = False

    def process_updates_in_snapshot_sync(self, session, source_id, entries) -> bool:
        return True

    def process_updates_in_log_entry_sync(self, session, source_id, entries) -> bool:
        if any(b"poison" in entry.opaque_payload for entry in entries) and not self.cured:
            raise ValueError(f"the entry is poison {HOSTILE}")
        return True


@dataclass
class World:
    """Three sites; tokyo has parked transactions, lima has no subscriber."""

    paris: LocalSite
    tokyo: LocalSite
    lima: LocalSite
    listener: Careful

    @property
    def engines(self):
        return {each.site_id: each.engine for each in (self.paris, self.tokyo, self.lima)}

    def poison(self, count: int = 1) -> None:
        """Have *count* more transactions parked at tokyo."""
        before = len(parked(self.tokyo.engine))
        for number in range(count):
            self.paris.send("policy", f"poison {number} {HOSTILE}".encode(), "tokyo", item_key=f"key-{number}")
        eventually(lambda: len(parked(self.tokyo.engine)) == before + count)


@contextmanager
def world() -> Iterator[World]:
    """Run three sites; tokyo applies, lima only receives."""
    # One segment for all tests: a trim would take acknowledged entries that a test looks for.
    with pair("paris", "tokyo", "lima", segment_seconds=3_600.0) as (paris, tokyo, lima):
        listener = Careful()
        tokyo.subscribe(listener, on_failure="park", max_tries=1)
        made = World(paris, tokyo, lima, listener)
        for number in range(3):
            token = paris.send("policy", f'{{"rule": {number}}}'.encode(), "tokyo", "lima", item_key=f"rule-{number}")
        tokyo.wait_applied(token)
        yield made

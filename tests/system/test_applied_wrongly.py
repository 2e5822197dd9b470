"""The cures of `docs/operating.md` for entries that a wrong listener has applied and the source has trimmed."""

from sqlalchemy import Engine, text

from lr_client import RoutingQueueListener, subscribe
from tests.system.world import Messages, World
from tests.waiting import eventually


class Rules(RoutingQueueListener):
    """Keeps the newest text of each rule; a wrong one loses the text."""

    client_name = "policy"

    def __init__(self, *, wrong: bool) -> None:
        self.wrong = wrong

    def process_updates_in_log_entry_sync(self, session, source_id, entries) -> bool:
        for entry in entries:
            name, _, words = entry.opaque_payload.decode().partition("=")
            session.execute(text("DELETE FROM rules WHERE name = :name"), {"name": name})
            values = {"name": name, "words": "" if self.wrong else words}
            session.execute(text("INSERT INTO rules (name, words) VALUES (:name, :words)"), values)
        return True

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync

    def on_snapshot_sync_start(self, session, source_id) -> None:
        session.execute(text("DELETE FROM rules"))


def rules(site: Engine) -> dict[str, str]:
    with site.connect() as connection:
        return {row.name: row.words for row in connection.execute(text("SELECT name, words FROM rules"))}


def test_a_snapshot_or_new_entries_repair_the_work_of_a_wrong_listener(world: World) -> None:
    tokyo = world.site("tokyo")
    world.execute("tokyo", "CREATE TABLE rules (name TEXT, words TEXT)")
    world.link("paris", "tokyo", initial_sync="log")
    world.transmit("paris", b"a=1", b"b=2", to=["tokyo"])
    with subscribe(tokyo, Rules(wrong=True), poll_interval=0.05):
        eventually(lambda: rules(tokyo) == {"a": "", "b": ""})
    with subscribe(tokyo, Rules(wrong=False), poll_interval=0.05):
        world.transmit("paris", b"a=1", to=["tokyo"])
        eventually(lambda: rules(tokyo) == {"a": "1", "b": ""})
        world.provide("paris", Messages(lambda _: [b"a=1", b"b=2"]))
        world.request_snapshots("paris", "tokyo")
        eventually(lambda: rules(tokyo) == {"a": "1", "b": "2"})
        world.transmit("paris", b"c=3", to=["tokyo"])
        eventually(lambda: rules(tokyo) == {"a": "1", "b": "2", "c": "3"})

"""A source loses entries that a sink has applied: a standby was promoted, or a copy was restored."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from queues.positions import Position
from tests.system.world import Messages, Recorder, World, in_log_sync
from tests.waiting import eventually


class Undoing(Recorder):
    """Records ("back", the sequence as text) for each rollback, and undoes the entries after that sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[int, bytes]] = []

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Any) -> bool:
        self.kept += [(entry.sequence, entry.opaque_payload) for entry in entries]
        return super().process_updates_in_log_entry_sync(session, source_id, entries)

    def on_rollback(self, session: Session, source_id: str, position: Position) -> None:
        self.kept = [(sequence, payload) for sequence, payload in self.kept if sequence <= position.seq]
        self._note(session, source_id, "back", str(position.seq).encode())


class Past:
    """A copy of the source's state; `restore` brings the source back to it."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._copy = folder / "copy.db"
        self._ticks = world.execute("paris", "SELECT max(end_seq) FROM lrq_ticks")[0][0]
        if self._is_file:
            self._backup(self._file, self._copy)

    @property
    def _file(self) -> Path:
        return Path(str(self._world.site("paris").url.database))

    @property
    def _is_file(self) -> bool:
        return self._world.site("paris").dialect.name == "sqlite"

    def restore(self) -> None:
        """Lose the changes since the copy: restore the file, or imitate the promotion of a late standby."""
        if self._is_file:
            self._world.site("paris").dispose()
            self._backup(self._copy, self._file)
            return
        lost = "(SELECT xid FROM lrq_log_entries WHERE payload LIKE 'lost%')"
        self._world.execute("paris", f"DELETE FROM lrq_log_commits WHERE xid IN {lost}")
        self._world.execute("paris", "DELETE FROM lrq_log_entries WHERE payload LIKE 'lost%'")
        self._world.execute("paris", "DELETE FROM lrq_ticks WHERE end_seq > :end", end=self._ticks)
        timeline = "regexp_replace(incarnation, '/[^/]*/', '/00000000/')"
        self._world.execute("paris", f"UPDATE lrq_branches SET incarnation = {timeline}")

    @staticmethod
    def _backup(origin: Path, target: Path) -> None:
        with closing(sqlite3.connect(origin)) as source, closing(sqlite3.connect(target)) as copy:
            source.backup(copy)


def lose_what_is_applied(world: World, folder: Path, recorder: Recorder) -> None:
    """Let the sink apply two entries that the source then loses, and write another entry instead."""
    tokyo = world.server("tokyo")
    world.subscribe("tokyo", recorder)
    options = {"peers": {"tokyo": tokyo.endpoints[0]}, "initial_sync": "log", "slow_retry_seconds": 0.1}
    paris = world.server("paris", **options)
    world.transmit("paris", b"kept", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"kept"])
    paris.stop()
    past = Past(world, folder)
    paris = world.server("paris", **options)
    world.transmit("paris", b"lost 1", to=["tokyo"])
    world.transmit("paris", b"lost 2", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"kept", b"lost 1", b"lost 2"])
    paris.stop()
    past.restore()
    world.transmit("paris", b"instead", to=["tokyo"])
    world.server("paris", **options)


def test_a_listener_with_on_rollback_undoes_the_lost_entries_and_needs_no_snapshot(
    world: World, tmp_path: Path
) -> None:
    listener = Undoing()
    lose_what_is_applied(world, tmp_path, listener)
    eventually(lambda: listener.log("paris")[-1:] == [b"instead"])
    assert listener.kinds("paris") == ["log 3", "back 1", "log 1"]
    assert [payload for _, payload in listener.kept] == [b"kept", b"instead"]
    world.transmit("paris", b"more", to=["tokyo"])
    eventually(lambda: listener.log("paris")[-1:] == [b"more"])
    in_log_sync(world.servers[-1], "tokyo")


def test_a_listener_without_on_rollback_gets_a_snapshot(world: World, tmp_path: Path) -> None:
    world.provide("paris", Messages(lambda _: [b"row"]))
    recorder = Recorder()
    lose_what_is_applied(world, tmp_path, recorder)
    eventually(lambda: "complete 1" in recorder.kinds("paris"))
    assert recorder.kinds("paris")[:4] == ["log 3", "start 1", "snapshot 1", "complete 1"]


@pytest.mark.parametrize("failures", [1, 3])
def test_a_failing_rollback_is_repeated_before_any_other_call(world: World, tmp_path: Path, failures: int) -> None:
    class Failing(Undoing):
        left = failures

        def on_rollback(self, session: Session, source_id: str, position: Position) -> None:
            if self.left:
                self.left -= 1
                raise RuntimeError("not yet")
            super().on_rollback(session, source_id, position)

    listener = Failing()
    lose_what_is_applied(world, tmp_path, listener)
    eventually(lambda: listener.log("paris")[-1:] == [b"instead"])
    assert listener.kinds("paris") == ["log 3", "back 1", "log 1"]
    assert [str(error) for error in listener.errors] == ["not yet"] * failures


@pytest.mark.parametrize("backup_of", ["this server", "an earlier server"])
def test_a_file_that_is_restored_while_its_server_works_sends_every_new_entry_at_once(
    world: World, tmp_path: Path, backup_of: str
) -> None:
    if world.site("paris").dialect.name != "sqlite":
        pytest.skip("only a SQLite file can be restored beneath its open connections")
    listener = Undoing()
    tokyo = world.server("tokyo")
    world.subscribe("tokyo", listener)
    options = {"peers": {"tokyo": tokyo.endpoints[0]}, "initial_sync": "log", "slow_retry_seconds": 0.1}
    paris = world.server("paris", **options)
    world.transmit("paris", b"kept", to=["tokyo"])
    eventually(lambda: listener.log("paris") == [b"kept"])
    past = Past(world, tmp_path)
    if backup_of == "an earlier server":
        paris.stop()
        world.server("paris", **options)
    for payload in (b"lost 1", b"lost 2"):
        world.transmit("paris", payload, to=["tokyo"])
    eventually(lambda: listener.log("paris")[-1:] == [b"lost 2"])
    past.restore()
    # The id of this entry is that of a lost one, which the server has sent.
    world.transmit("paris", b"instead", to=["tokyo"])
    eventually(lambda: [payload for _, payload in listener.kept] == [b"kept", b"instead"])
    if backup_of == "this server":
        # Otherwise the lease of the file is another one: the server begins anew, as after a start.
        branches = world.execute("paris", "SELECT start_seq FROM lrq_branches ORDER BY number")
        assert [tuple(row) for row in branches] == [(0,), (1,)]

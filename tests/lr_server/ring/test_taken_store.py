"""A member whose store another process has, or whose disk fails: the status tells why, until that is over."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from lr_server.ring.edge import RingParcel
from lr_server.ring.runner import TokenRunner
from lr_server.ring.store import TokenStore
from lr_server.ring.witness import StoreWitness
from queues.errors import StoreTakenError
from tests.lr_server.ring.live import PACE
from tests.lr_server.ring.stores import TOKEN, new_store, open_store
from tests.waiting import eventually


class NoWay:
    """A link to a member that cannot be reached."""

    def send(self, _parcel: RingParcel) -> None:
        """Lose the parcel."""


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_an_alarm_about_a_taken_store_ends_once_the_store_is_free(site: Engine) -> None:
    opened: list[str] = []

    def opening() -> TokenStore:
        try:
            return open_store(site)
        except StoreTakenError as error:
            opened.append(str(error))
            raise

    other = new_store(site)
    runner = TokenRunner(opening, 0, {1: NoWay(), 2: NoWay()}, pace=PACE)  # type: ignore[dict-item]
    runner.start()
    try:
        eventually(lambda: runner.alarm_words and runner.alarm_words in opened)
        other.close()
        eventually(lambda: runner.member is not None)
        assert runner.alarm_words == ""
    finally:
        runner.stop()


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_status_and_one_line_of_the_log_tell_why_a_member_is_closed(
    site: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = tmp_path / "disk"
    opened: list[Path] = []

    def opening() -> TokenStore:
        opened.append(disk)
        return TokenStore(site, TOKEN, StoreWitness(disk / "witness"))

    runner = TokenRunner(opening, 0, {1: NoWay(), 2: NoWay()}, pace=PACE)  # type: ignore[dict-item]
    runner.start()
    try:
        words = f"the witness {disk}/witness cannot be opened (No such file or directory): mend its disk or folder"
        eventually(lambda: runner.status.trouble.startswith(words))
        eventually(lambda: len(opened) > 3)
        # The log would fill a full disk otherwise.
        assert len([each for each in caplog.records if "a member of the ring begins again" in each.getMessage()]) == 1
        disk.mkdir()
        eventually(lambda: runner.status.role != "closed")
        assert "cannot be opened" not in runner.status.trouble
    finally:
        runner.stop()

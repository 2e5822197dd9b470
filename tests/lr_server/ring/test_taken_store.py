"""A member whose store another process has: the alarm ends once the store is free."""

import pytest
from sqlalchemy import Engine

from lr_server.ring.edge import RingParcel
from lr_server.ring.runner import TokenRunner
from lr_server.ring.store import TokenStore
from queues.errors import StoreTakenError
from tests.lr_server.ring.live import PACE
from tests.lr_server.ring.stores import new_store, open_store
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

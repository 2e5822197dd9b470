"""The sessions of a new branch of the log find none of the lost ticks of the branch before."""

from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from discovery.topology import StaticTopology
from lr_client import RoutingQueueSenderClient
from lr_server.session.traffic import Traffic
from lr_server.settings import Settings
from lr_server.source.source import Source
from queues.clock import SYSTEM_CLOCK
from queues.database import leases
from queues.database.transactions import writing
from queues.positions import Tick
from queues.send_log.branches import begin_branch, newest_branch
from sink.attachment.attachments import Attachments
from tests.waiting import eventually


def ignore(*_: Any) -> None:
    pass


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_feed_is_empty_before_a_session_may_begin_on_a_new_branch(
    site: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = site.url.render_as_string(hide_password=False)
    source = Source(
        site, Settings(site_id="paris", database_url=url), StaticTopology({}), server="me", clock=SYSTEM_CLOCK,
        on_tick=ignore, on_begin=ignore, on_lost=ignore, on_lost_range=ignore, on_ended=ignore,
        attachments=Attachments(), traffic=Traffic(),
    )  # fmt: skip
    lease = leases.acquire(site, "server", "me", ttl=600)
    assert lease is not None
    source.sequence(lease)
    try:
        with Session(site) as session, session.begin():
            RoutingQueueSenderClient("policy").transmit_log_entry_message(session, b"lost", ["tokyo"])
        eventually(lambda: source.feed.newest is not None)
        with writing(site) as connection:
            last = newest_branch(connection)
            begin_branch(connection, last.number + 1, 0, last.incarnation, "1:1:")
        held, really = list[Tick | None](), source.supervisor.end_other_branches

        def note(branch: str) -> None:
            held.append(source.feed.newest)
            really(branch)

        monkeypatch.setattr(source.supervisor, "end_other_branches", note)
        source.sequence(lease)
        assert held == [None]
    finally:
        source.feed.close()
        source.rest()

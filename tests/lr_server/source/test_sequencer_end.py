"""The end of a sequencer: no session holds it up."""

import threading
from contextlib import closing

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from lr_client.sender import RoutingQueueSenderClient
from lr_server.feed.feed import LiveFeed
from lr_server.source.sequencer import Sequencer
from queues.clock import SYSTEM_CLOCK
from queues.database import leases
from queues.names import client_name, site_id
from queues.send_log.opening import open_log
from queues.send_log.port import SessionKey, TickRows
from queues.send_log.wakeup import Wakeup
from tests.waiting import eventually

CLIENT = RoutingQueueSenderClient("policy")
TOKYO = SessionKey(client_name("policy"), site_id("tokyo"))


def ignore(_: object = None) -> None:
    pass


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_sequencer_ends_although_it_has_begun_a_feed_anew_that_waits_for_a_session(site: Engine) -> None:
    # A feed without room for two ticks waits for the session, which reads none.
    feed, taken = LiveFeed(1, "cascade", SYSTEM_CLOCK), list[TickRows]()
    feed.close()
    lease = leases.acquire(site, "server", "me", ttl=60)
    assert lease is not None
    with closing(open_log(site)) as source:
        sequencer = Sequencer(
            site, source, feed, lease, wakeup=Wakeup("paris"), clock=SYSTEM_CLOCK, idle_seconds=0.01,
            interval_seconds=0.01, on_tick=taken.append, on_begin=ignore, on_lost=ignore, on_ended=ignore,
        )  # fmt: skip
        sequencer.start()
        feed.after(TOKYO, 0)
        for number in (1, 2):
            with Session(site) as session, session.begin():
                CLIENT.transmit_log_entry_message(session, b"%d" % number, ["tokyo"])
            eventually(lambda number=number: feed.newest is not None and feed.newest.number == number)  # type: ignore[misc]
        assert len(taken) == 1
        end = threading.Thread(target=sequencer.stop, daemon=True)
        end.start()
        eventually(lambda: not end.is_alive())
        assert len(taken) == 2

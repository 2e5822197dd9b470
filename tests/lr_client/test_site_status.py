"""An application reads the typed status of its site, and watches it for changes."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from discovery.status_changes import StatusChange, change_between
from lr_client import SessionStatus, SiteStatus, status, watch_status
from queues.database.transactions import writing
from queues.errors import NotInitializedError, UsageError
from queues.names import ClientName, SiteId
from queues.receive import replays
from queues.receive.replays import ReplayState, ReplayWish
from queues.send_log import links, resends
from queues.send_log.port import SessionKey
from queues.send_log.resend_rules import SeqRange
from queues.states import LinkWish, SessionState
from tests.discovery.statuses import a_queue, a_session, a_site, a_snapshot
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.cli.source import SourceSite


def test_the_status_has_sessions_queues_and_links_as_values(site: Engine):
    source = SourceSite(site)
    source.transmit(b"1", to=["tokyo"])
    source.tick()
    source.session("tokyo")
    Arrivals(site, source="oslo").tick([b"a"], [b"b"])
    with writing(site) as connection:
        links.set_wish(connection, [SessionKey(ClientName("policy"), SiteId("tokyo"))], LinkWish.DRAINING)
    found = status(site)
    assert isinstance(found, SiteStatus)
    [session] = found.sessions
    assert isinstance(session, SessionStatus)
    assert (session.destination, session.state, session.lag.entries) == ("tokyo", SessionState.LOG_ENTRY_SYNC, 1)
    [queue] = found.receive_queues
    assert (queue.source, queue.outstanding, queue.subscribed) == ("oslo", 2, False)
    [link] = found.links
    assert (link.client, link.destination, link.wish, link.ended_us) == ("policy", "tokyo", LinkWish.DRAINING, 0)
    assert json.loads(json.dumps(found.as_json()))["links"][0]["wish"] == "draining"


def test_a_database_without_tables_is_told(new_database):
    import queues

    engine = queues.create_engine(new_database())
    try:
        with pytest.raises(NotInitializedError, match="run `lrq init`"):
            status(engine)
    finally:
        engine.dispose()


def test_a_watch_yields_the_whole_and_then_each_change(site: Engine):
    arrivals = Arrivals(site)
    watched = watch_status(site, 60, interval=0.01)
    first = next(watched)
    assert (first.receive_queues, first.sessions, first.gone) == ((), (), ())
    arrivals.tick([b"a"])
    [queue] = next(watched).receive_queues
    assert (queue.received_seq, queue.outstanding) == (1, 1)
    arrivals.tick([b"b"])
    assert next(watched).receive_queues[0].received_seq == 2


def test_a_watch_tells_an_order_for_a_replay_and_its_end(site: Engine):
    arrivals = Arrivals(site)
    arrivals.tick([b"a"])
    watched = watch_status(site, 60, interval=0.01)
    assert next(watched).replays == ()
    with writing(site) as connection:
        replays.place(connection, arrivals.queue_id(connection), ReplayWish(1), "ada")
    [ordered] = next(watched).replays
    assert (ordered.client, ordered.person, ordered.waits) == ("policy", "ada", True)
    with writing(site) as connection:
        replays.end(connection, replays.all_waiting(connection)[0], ReplayState.CANCELLED, "nothing has changed")
    assert next(watched).replays[0].outcome == "nothing has changed"


def test_a_watch_tells_a_resend_until_its_end(site: Engine):
    key = SessionKey(ClientName("policy"), SiteId("tokyo"))
    watched = watch_status(site, 60, interval=0.01)
    assert next(watched).resends == ()
    with writing(site) as connection:
        resends.begin(connection, key, SeqRange(1, 2), "ada")
    [begun] = next(watched).resends
    assert (begun.client, begun.destination, begun.person, begun.ended_us) == ("policy", "tokyo", "ada", 0)
    with writing(site) as connection:
        resends.cancel(connection, key, "ben")
    change = next(watched)
    assert (change.resends, change.gone, change.status.resends) == ((), ("resend policy/tokyo",), ())


def test_a_watch_without_a_change_ends_at_its_timeout(site: Engine):
    assert len(list(watch_status(site, 0.3, interval=0.05))) == 1


def test_a_watch_ends_when_it_is_told_to(site: Engine):
    stopping = threading.Event()
    watched: Iterator[StatusChange] = watch_status(site, 3600, interval=3600, stopping=stopping)
    next(watched)
    stopping.set()
    assert list(watched) == []


def test_a_watch_holds_no_connection_between_two_readings(site: Engine):
    watched = watch_status(site, 60)
    next(watched)
    assert site.pool.checkedout() == 0  # type: ignore[attr-defined]
    watched.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_that_is_not_above_zero_is_refused_at_once(site: Engine, interval: float):
    with pytest.raises(UsageError, match="use a number of seconds above zero"):
        watch_status(site, 60, interval=interval)


def test_age_alone_is_no_change():
    before = a_site(sessions=(a_session(),), receive_queues=(a_queue(),), snapshots=(a_snapshot(),))
    older = replace(
        before,
        at_us=1,
        sessions=(replace(before.sessions[0], updated_us=7, lag=replace(before.sessions[0].lag, seconds=8.0)),),
        receive_queues=(replace(before.receive_queues[0], oldest_seconds=9.0),),
        snapshots=(replace(before.snapshots[0], cut_seconds=9.0),),
    )
    assert change_between(before, older).is_empty


def test_only_the_parts_that_differ_are_part_of_a_change():
    one, two = a_session(), a_session(destination=SiteId("lima"))
    before = a_site(sessions=(one, two), receive_queues=(a_queue(),))
    moved = replace(two, acked_seq=99)
    found = change_between(before, replace(before, sessions=(one, moved), receive_queues=()))
    assert found.sessions == (moved,)
    assert found.gone == ("receive queue policy/lima",)
    assert change_between(None, before).sessions == (one, two)

"""Tokens that an application waits for, and payloads that replace an item."""

from typing import Any

import pytest
from sqlalchemy.orm import Session

from lr_client import LRMessageWithDestinations, PositionToken, RoutingQueueSenderClient, position_of, wait_applied
from queues.errors import InvalidPositionError, TransientError, UsageError, WaitTimeoutError
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually


def test_a_token_shows_that_every_site_has_the_entry_and_that_it_is_applied(world: World) -> None:
    world.link("paris", "tokyo", initial_sync="log")
    token = world.transmit("paris", b"entry", to=["tokyo", "lima"])
    paris, tokyo = world.site("paris"), world.site("tokyo")
    world.client.wait_replicated(paris, token, ["tokyo"], timeout=60)
    with pytest.raises(WaitTimeoutError, match="lima"):
        world.client.wait_replicated(paris, token, ["tokyo", "lima"], timeout=0.05)
    with pytest.raises(WaitTimeoutError, match="policy"):
        wait_applied(tokyo, token, timeout=0.05)
    recorder = world.subscribe("tokyo")
    wait_applied(tokyo, PositionToken.parse(token), timeout=60)
    # A commit is visible in the database a moment before the recorder notes it.
    eventually(lambda: recorder.log("paris") == [b"entry"])


def test_one_string_of_sites_to_wait_for_is_refused(world: World) -> None:
    token = world.transmit("paris", b"entry", to=["tokyo"])
    with pytest.raises(UsageError, match="not one string"):
        world.client.wait_replicated(world.site("paris"), token, "tokyo", timeout=60)


def test_the_position_of_a_token_is_the_end_of_the_tick_with_its_transaction(world: World) -> None:
    paris, tokyo, recorder = world.site("paris"), world.site("tokyo"), world.subscribe("tokyo")
    token = world.transmit("paris", b"one", to=["tokyo"])
    with pytest.raises(TransientError, match="no tick has the transaction"):
        position_of(paris, token)
    world.link("paris", "tokyo", initial_sync="log")
    wait_applied(tokyo, token, timeout=60)
    later = world.transmit("paris", b"two", to=["tokyo"])
    wait_applied(tokyo, later, timeout=60)
    eventually(lambda: recorder.log("paris") == [b"one", b"two"])
    found = [position_of(paris, each) for each in (token, PositionToken.parse(later))]
    assert [position.seq for position in found] == [1, 2]
    assert {position.branch for position in found} == {PositionToken.parse(token).branch}
    with pytest.raises(UsageError, match="is one of site 'paris', and this is 'tokyo'"):
        position_of(tokyo, token)


def test_a_token_of_another_client_is_refused_because_another_session_sends_its_entries(world: World) -> None:
    world.link("paris", "tokyo", initial_sync="log", clients=["policy"])
    paris, meters = world.site("paris"), RoutingQueueSenderClient("meters")
    with Session(paris) as session, session.begin():
        unsent = meters.transmit_log_entry_message(session, b"entry of meters", ["tokyo"])
    later = world.transmit("paris", b"entry", to=["tokyo"])
    world.client.wait_replicated(paris, later, ["tokyo"], timeout=60)
    with pytest.raises(UsageError, match="client 'meters'"):
        world.client.wait_replicated(paris, unsent, ["tokyo"], timeout=0)
    with pytest.raises(WaitTimeoutError, match="tokyo"):
        meters.wait_replicated(paris, unsent, ["tokyo"], timeout=0)


@pytest.mark.parametrize("given", [None, b"paris/policy/branch/1", 7])
def test_an_object_that_is_no_token_is_refused(world: World, given: Any) -> None:
    paris = world.site("paris")
    with pytest.raises(InvalidPositionError, match=r"result of transmit or its text"):
        world.client.wait_replicated(paris, given, ["tokyo"], timeout=60)
    with pytest.raises(InvalidPositionError, match=r"result of transmit or its text"):
        position_of(paris, given)
    with pytest.raises(InvalidPositionError, match=r"result of transmit or its text"):
        wait_applied(paris, given, timeout=60)


def test_a_write_that_arrives_only_in_the_snapshot_counts_as_replicated_and_applied(world: World) -> None:
    world.provide("paris", Messages(lambda _: [b"state"]))
    token = world.transmit("paris", b"entry", to=["tokyo"])
    recorder = world.subscribe("tokyo")
    world.link("paris", "tokyo")
    wait_applied(world.site("tokyo"), token, timeout=60)
    world.client.wait_replicated(world.site("paris"), token, ["tokyo"], timeout=60)
    eventually(lambda: recorder.kinds("paris") == ["start 1", "snapshot 1", "complete 1"])


def test_only_the_last_message_of_an_item_in_a_transaction_is_sent(world: World) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log")
    messages = [LRMessageWithDestinations(f"cdg {number}".encode(), ["tokyo"], "cdg") for number in range(5)]
    messages.insert(2, LRMessageWithDestinations(b"ory", ["tokyo"], "ory"))
    messages.append(LRMessageWithDestinations(b"no item", ["tokyo"]))
    with Session(world.site("paris")) as session, session.begin():
        world.client.transmit_log_entry_messages(session, messages)
    eventually(lambda: recorder.log("paris") == [b"ory", b"cdg 4", b"no item"])
    in_log_sync(paris, "tokyo")
    paris.drain(timeout=60)


def test_of_an_item_in_a_transaction_above_the_limits_only_the_last_message_is_sent_and_the_rest_counted(
    world: World,
) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", tick_rows=100)
    messages = [LRMessageWithDestinations(b"cdg %d" % number, ["tokyo"], "cdg") for number in range(600)]
    with Session(world.site("paris")) as session, session.begin():
        world.client.transmit_log_entry_messages(session, messages)
    eventually(lambda: recorder.log("paris") == [b"cdg 599"])
    eventually(lambda: sessions_of(paris)["tokyo"]["replaced"] == 599)
    paris.stop()
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log", tick_rows=100)
    with Session(world.site("paris")) as session, session.begin():
        world.client.transmit_log_entry_messages(session, messages[:3])
    # The new server goes on counting from the number in the database.
    eventually(lambda: sessions_of(paris)["tokyo"]["replaced"] == 601)


def test_no_call_of_a_listener_ends_between_a_replaced_message_and_the_one_that_replaces_it(world: World) -> None:
    world.site("tokyo")
    for payloads in ([("cdg", b"cdg 1"), (None, b"a")], [(None, b"b")], [("cdg", b"cdg 2"), (None, b"c")]):
        messages = [LRMessageWithDestinations(payload, ["tokyo"], key) for key, payload in payloads]
        with Session(world.site("paris")) as session, session.begin():
            world.client.transmit_log_entry_messages(session, messages)
    world.transmit("paris", b"d", to=["tokyo"])
    # All transactions are older than the server, so one tick holds them.
    world.link("paris", "tokyo", initial_sync="log")
    recorder = world.subscribe("tokyo", max_batch_entries=1)
    eventually(lambda: len(recorder.calls) == 2)
    assert recorder.calls == [("paris", [b"a", b"b", b"cdg 2", b"c"]), ("paris", [b"d"])]


def test_messages_of_an_item_arrive_in_order_up_to_the_last(world: World) -> None:
    recorder = world.subscribe("tokyo")
    world.link("paris", "tokyo", initial_sync="log")
    for number in range(100):
        with Session(world.site("paris")) as session, session.begin():
            world.client.transmit_log_entry_message(session, str(number).encode(), ["tokyo"], item_key="cdg")
    eventually(lambda: recorder.log("paris")[-1:] == [b"99"])
    assert [int(payload) for payload in recorder.log("paris")] == sorted(map(int, recorder.log("paris")))


def test_an_entry_counts_as_unreplicated_after_the_sink_has_lost_its_database(world: World) -> None:
    world.link("paris", "tokyo", initial_sync="log").stop()
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log")
    token = world.transmit("paris", b"entry", to=["tokyo"])
    world.client.wait_replicated(world.site("paris"), token, ["tokyo"], timeout=60)
    paris.stop()
    # The sink without these rows is as good as new.
    for table in ("blocks", "headers", "marks", "queues"):
        world.execute("tokyo", f"DELETE FROM lrq_receive_{table}")
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="snapshot")
    eventually(lambda: sessions_of(paris)["tokyo"]["state"] == "snapshot sync")
    eventually(lambda: sessions_of(paris)["tokyo"]["lag"]["entries"] == 1)
    with pytest.raises(WaitTimeoutError, match="tokyo"):
        world.client.wait_replicated(world.site("paris"), token, ["tokyo"], timeout=0.05)

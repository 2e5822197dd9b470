"""A function is a listener; wrong kinds are refused with one sentence."""

import pytest

pytest.importorskip("django")

from lr_client.subscriber.listener import RoutingQueueListener, undoes
from lrq.contrib.django import listener
from lrq.contrib.django.listeners import SharingListener
from queues.errors import InvalidNameError, UsageError


def test_a_function_becomes_a_listener_and_can_still_be_called():
    heard = []

    @listener("orders")
    def apply(source_id, entries):
        heard.append((source_id, entries))

    assert apply.client_name == "orders"
    assert apply("north", []) is None
    assert apply.process_updates_in_log_entry_sync(None, "north", []) is True
    assert apply.process_updates_in_snapshot_sync(None, "south", []) is True
    assert heard == [("north", []), ("north", []), ("south", [])]


@pytest.mark.parametrize("answer", [True, False, "yes"])
def test_the_answer_of_the_function_is_passed_on(answer: object):
    assert (
        listener("orders")(lambda _source, _entries: answer).process_updates_in_log_entry_sync(None, "n", []) is answer
    )


async def asynchronous(source_id, entries): ...


def without_source(entries): ...


def with_session(session, source_id, entries): ...


class Kind: ...


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (asynchronous, "asynchronous is `async def`, and nothing would await it"),
        (without_source, "without_source does not take two arguments: write `def apply"),
        (with_session, "with_session does not take two arguments: write `def apply"),
        (Kind, "Kind is no function: write `def apply"),
        ("apply", "str is no function: write `def apply"),
    ],
)
def test_another_object_than_a_function_of_two_arguments_is_refused(wrong: object, sentence: str):
    with pytest.raises(UsageError, match=sentence):
        listener("orders")(wrong)


def test_a_malformed_client_is_refused():
    with pytest.raises(InvalidNameError, match="not a valid client name"):
        listener("not a client")(lambda _source, _entries: None)


class Plain(RoutingQueueListener):
    client_name = "orders"

    def process_updates_in_log_entry_sync(self, session, source_id, entries):
        return True

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync


class Undoing(Plain):
    def on_rollback(self, session, source_id, position): ...


class Asynchronous(Plain):
    async def on_rollback(self, session, source_id, position): ...


def test_a_sharing_listener_undoes_only_if_the_other_one_does():
    assert undoes(SharingListener(Undoing()))
    assert not undoes(SharingListener(Plain()))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (asynchronous, "asynchronous is a plain function: decorate it"),
        (with_session, "with_session is a plain function: decorate it"),
        (Plain, "the listener is the class Plain: pass an object"),
        (Asynchronous(), "Asynchronous.on_rollback is `async def`"),
        (object(), "the listener object has no method process_updates_in_snapshot_sync"),
    ],
)
def test_a_wrong_kind_of_listener_is_refused(wrong: object, sentence: str):
    with pytest.raises(UsageError, match=sentence):
        SharingListener(wrong)

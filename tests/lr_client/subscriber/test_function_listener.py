"""`@listener` makes a listener of a function; wrong functions and options are refused in one sentence."""

from functools import partial

import pytest
from sqlalchemy import Engine, insert

import lrq
from lr_client.subscriber.function_listener import listener
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.subscription import subscribe
from queues.errors import InvalidNameError, ListenerError, UsageError
from queues.receive.parked import parked
from tests.lr_client.subscriber.applying import Apply, applied, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


def note(session, source_id, what, payload=b""):
    session.execute(insert(applied).values(source=source_id, what=what, payload=payload))


def made(client="policy", answer=None, **options):
    """Return a listener that writes each entry into `applied` and returns *answer*."""

    @listener(client, **options)
    def apply(session, source_id, entries):
        """Apply some entries."""
        for entry in entries:
            note(session, source_id, "log", entry.opaque_payload)
        return answer

    return apply


def test_the_facade_has_the_decorator() -> None:
    assert lrq.listener is listener


@pytest.mark.parametrize("answer", [None, True])
def test_a_function_applies_snapshot_rows_and_log_entries(
    sink: Engine, tokyo: Arrivals, follow: Follow, answer: object
) -> None:
    tokyo.snapshot("s1", payloads("r", 3))
    tokyo.tick([b"e1", b"e2"])
    follow(made(answer=answer))
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == [*texts("r", 3), "e1", "e2"]


def test_each_named_callback_is_called_in_its_place(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    apply = made()

    @apply.snapshot
    def row(session, source_id, entries):
        for entry in entries:
            note(session, source_id, "snapshot", b"row " + entry.opaque_payload)

    @apply.on_snapshot_sync_start
    def start(session, source_id):
        note(session, source_id, "start")

    @apply.on_snapshot_sync_complete
    def complete(session, source_id):
        note(session, source_id, "complete")

    @apply.on_rollback
    def undo(session, source_id, position):
        note(session, source_id, f"back to {position.seq}")

    tokyo.snapshot("s1", [b"1"])
    seq = tokyo.tick([b"e1"])
    with follow(apply):
        eventually(lambda: tokyo.left == 0)
        tokyo.tick([b"e2"])
        eventually(lambda: tokyo.left == 0)
        tokyo.go_back(seq)
        eventually(lambda: story(sink)[-1].startswith("<back"))
    assert story(sink) == ["<start>", "row 1", "<complete>", "e1", "e2", f"<back to {seq}>"]


@pytest.mark.parametrize("answer", [False, 1, "yes"])
def test_false_and_other_answers_are_refused_and_come_again(
    sink: Engine, tokyo: Arrivals, follow: Follow, answer: object
) -> None:
    answers = [answer]
    errors: list[tuple[str, Exception]] = []

    @listener("policy")
    def apply(session, source_id, entries):
        note(session, source_id, "log", entries[0].opaque_payload)
        return answers.pop() if answers else None

    @apply.on_error
    def learn(source_id, error):
        errors.append((source_id, error))

    tokyo.tick([b"e1"])
    follow(apply)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1"]
    ((source, error),) = errors
    assert (source, type(error)) == ("tokyo", ListenerError)
    assert "returned False" in str(error) or str(error).startswith(f"apply returned {type(answer).__name__}: return")


def test_the_plain_function_can_be_called(sink: Engine) -> None:
    @listener("policy")
    def add(session, source, entries):
        """Add."""
        return session + source + entries

    assert add(1, 2, 3) == 6
    assert add(1, source=2, entries=3) == 6
    assert (add.__name__, add.__doc__) == ("add", "Add.")
    assert isinstance(add, RoutingQueueListener)
    assert repr(add) == "<listener add of client 'policy'>"


def test_a_decorated_callback_stays_a_plain_function() -> None:
    apply = made()

    @apply.on_snapshot_sync_start
    def start(session, source_id):
        return "started"

    assert start(None, "tokyo") == "started"


def test_the_options_of_the_decorator_hold_unless_the_subscription_has_others(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    def refuse(session, source_id, entries):
        return False

    own = listener("policy", on_failure="park", max_tries=2)(refuse)
    tokyo.tick([b"e1"])
    with follow(own):
        eventually(lambda: tokyo.left == 0)
    assert [each.tries for each in parked(sink)] == [2]
    tokyo.tick([b"e2"])
    with follow(own, max_tries=4):
        eventually(lambda: tokyo.left == 0)
    assert [each.tries for each in parked(sink)] == [2, 4]


async def later(session, source_id, entries): ...


def generate(session, source_id, entries):
    yield


class Callable:
    def __call__(self, session, source_id, entries): ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (Apply, "Apply is no function"),
        ("apply", "str is no function"),
        (later, "later is `async def`"),
        (partial(later), "later is `async def`"),
        (generate, "generate is a generator"),
        (lambda session, source_id: None, r"parameters \(session, source_id\): a call brings"),
        (lambda self, session, source_id, entries: None, r"a call brings \(session, source_id, entries\)"),
        (lambda session, source_id, *, entries: None, "a call brings"),
    ],
)
def test_a_wrong_function_is_refused_when_it_is_decorated(function: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        listener("policy")(function)  # type: ignore[type-var]


@pytest.mark.parametrize("function", [partial(generate), Callable(), lambda *given: None, lambda a, b, c, d=1: None])
def test_any_callable_with_three_parameters_is_accepted(function: object) -> None:
    if isinstance(function, partial):
        function = partial(lambda own, session, source_id, entries: None, "own")
    assert isinstance(listener("policy")(function), RoutingQueueListener)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("snapshot", lambda session, source_id: None),
        ("on_snapshot_sync_start", lambda session: None),
        ("on_snapshot_sync_complete", lambda session: None),
        ("on_rollback", lambda session, source_id: None),
        ("on_error", lambda error: None),
    ],
)
def test_a_wrong_callback_is_refused_when_it_is_decorated(name: str, function: object) -> None:
    with pytest.raises(UsageError, match="a call brings"):
        getattr(made(), name)(function)
    with pytest.raises(UsageError, match="is no function"):
        getattr(made(), name)(Apply)


def test_a_callback_is_named_once_and_without_parentheses() -> None:
    apply = made()
    apply.on_error(lambda source_id, error: None)
    with pytest.raises(UsageError, match=r"on_error of <listener apply .* is <lambda> already: name one function"):
        apply.on_error(lambda source_id, error: None)
    with pytest.raises(UsageError, match=r"@….on_rollback without parentheses"):
        apply.on_rollback()


def test_a_decorator_without_a_client_is_refused() -> None:
    with pytest.raises(UsageError, match=r'write @listener\("CLIENT"\) above `def apply`'):

        @listener
        def apply(session, source_id, entries): ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_trys": 3}, "subscribe has no option max_trys: did you mean max_tries?"),
        ({"colour": "red"}, "subscribe has no option colour: there are poll_interval, on_failure"),
        ({"shard": 8}, "subscribe has no option shard: did you mean shards?"),
        ({"shards": 0}, "shards is 0: choose a number from 1 to 256"),
        ({"partitioner": "hsah"}, "there is no partitioner hsah: choose one of adaptive, hash, key, modulo, range"),
        ({"on_failure": "ignore"}, "on_failure is 'ignore': choose"),
        ({"backoff": 0}, "backoff is 0: give a number of seconds above zero"),
        ({"lease_ttl": "10"}, "lease_ttl is '10': give a number of seconds"),
    ],
)
def test_a_wrong_option_is_refused_when_a_function_is_decorated(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        listener("policy", **options)  # type: ignore[arg-type]
    assert str(refused.value).startswith(words)


@pytest.mark.parametrize("client", ["", "a/b", None, 7])
def test_a_malformed_client_is_refused(client: object) -> None:
    with pytest.raises(InvalidNameError):
        listener(client)  # type: ignore[arg-type]


def test_an_undecorated_function_is_refused_when_one_subscribes(sink: Engine) -> None:
    def apply(session, source_id, entries): ...

    with pytest.raises(UsageError, match=r"the listener is the function apply: decorate it with @lrq.listener\("):
        subscribe(sink, apply)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="later is `async def`"):
        subscribe(sink, later)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["process_updates_in_log_entry_sync", "on_error", "on_rollback"])
def test_a_method_that_is_a_generator_or_lacks_parameters_is_refused(sink: Engine, name: str) -> None:
    def generator(_self, *_details):
        yield

    for method, words in ((generator, "is a generator"), (lambda _self: None, "a call brings")):
        wrong = type("Wrong", (Apply,), {name: method})()
        with pytest.raises(UsageError, match=rf"Wrong\.{name} .*{words}"):
            subscribe(sink, wrong)

"""Call an application's listener as a subscription would, without a receive queue, a server or a thread."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session, scoped_session

from lr_client.subscriber import listener_session
from lr_client.subscriber.callbacks import require_listener
from lr_client.subscriber.delivery import Delivery
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.listener_session import ListenerSession, require_transactions
from lr_client.subscriber.steps import DeliveryStep, Kind
from lr_client.subscriber.transaction_guard import EndedError
from lrq.testing.given_entries import Entry, rows_of
from queues import names
from queues.database import commit_mark, dialects, migrations
from queues.database.dialect import Statement
from queues.database.engine_check import require_connection, require_engine
from queues.database.leases import Lease
from queues.database.transactions import mapped_errors
from queues.errors import ListenerError, UsageError
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT, Consumed
from queues.receive.registry import ReceiveQueue

#: A database, or the open transaction of a test.
Target = Engine | Session | scoped_session[Session] | Connection

_BRANCH: Final = "testing"
_SYNC_ID: Final = "testing"


def deliver(
    target: Target,
    listener: RoutingQueueListener,
    entries: Iterable[Entry],
    source: str = "paris",
    *,
    snapshot: bool = False,
    client: str | None = None,
    sequence: int = 1,
) -> bool:
    """Call *listener* once with *entries*, in one transaction, by the rules of a subscription; return its answer.

    *entries* are payloads, (payload, item_key), mappings with these names, or the results of `transmitted`. All of
    them are one source transaction of site *source*, numbered from *sequence*, and committed now.

    With True the listener's changes are committed. With False or an exception the changes are rolled back, and the
    exception passes through.

    With a session or connection the listener works in a savepoint of its transaction, and nothing is committed. Objects
    of that session are expired afterwards, so that they show the listener's changes.

    With *snapshot*, the listener gets the start, the entries and the completion of a snapshot. Each of the three has a
    transaction of its own, and there may be no entries. *client* replaces the listener's `client_name` in the entries.

    Raises:
        UsageError: an argument is wrong, or without *client* a result of `transmitted` is of another client than the
            listener's. The listener was not called.
        SetupError: the database has no lrq tables, or those of another version.
        ListenerError: the answer is neither True nor False, or the listener has ended its transaction.

    Example:
        >>> assert deliver(engine, Apply(), [b"rule 1", (b"rule 2", "key 2")], source="paris")
    """
    calls = _Calls(target, listener, source, client)
    rows = rows_of(entries, sequence, in_snapshot=snapshot, client=calls.client if client is None else None)
    if sequence < 1:
        raise UsageError(f"sequence is {sequence}: the first entry of a site has 1")
    before = Consumed(IN_SNAPSHOT, _SYNC_ID, sequence - 1, "", 0)
    if snapshot:
        whole = before._replace(row_no=sequence - 1 + len(rows))
        logged = Consumed(IN_LOG, _SYNC_ID, whole.row_no, _BRANCH, 0)
        steps = [
            DeliveryStep(Kind.SNAPSHOT_START, logged, before),
            *([DeliveryStep(Kind.SNAPSHOT_ROWS, before, whole, rows)] if rows else []),
            DeliveryStep(Kind.SNAPSHOT_COMPLETE, whole, logged),
        ]
        return all(calls.accepts(step) for step in steps)
    if not rows:
        raise UsageError("deliver needs at least one entry: a subscription never calls a listener without one")
    seen = Consumed(IN_LOG, "", 0, _BRANCH, sequence - 1)
    return calls.accepts(DeliveryStep(Kind.LOG_ENTRIES, seen, seen._replace(seq=rows[-1].seq), rows))


def deliver_rollback(
    target: Target, listener: RoutingQueueListener, after: int, source: str = "paris", *, client: str | None = None
) -> None:
    """Tell *listener* that *source* has lost the entries with a `sequence` above *after*, in one transaction.

    The rules and errors are those of `deliver`. Raises `ListenerError` for a listener without `on_rollback`.
    """
    seen = Consumed(IN_LOG, "", 0, _BRANCH, after)
    _Calls(target, listener, source, client).accepts(DeliveryStep(Kind.ROLLBACK, seen, seen, back_seq=after))


class _Calls(Delivery):
    """The product's delivery of steps, without a queue: it claims nothing, removes nothing and moves no marks."""

    def __init__(self, target: Target, listener: RoutingQueueListener, source: str, client: str | None) -> None:
        require_listener(listener)
        own = names.client_name(getattr(listener, "client_name", None))
        of_client, site = own if client is None else names.client_name(client), names.site_id(source)
        queue = ReceiveQueue(0, names.receive_queue(of_client, site), of_client, site)
        target = target() if isinstance(target, scoped_session) else target
        self.client = of_client
        self._session = target if isinstance(target, Session) else None
        self._outer: Connection | None = None
        if isinstance(target, Session | Connection):
            if self._session is not None:
                self._session.flush()
            self._outer = require_connection(target, "deliver")
        engine = require_engine(target, "deliver") if self._outer is None else self._outer.engine
        super().__init__(engine, listener, queue, Lease("testing", "", 0))
        self._mark = ""
        self._is_committed = False

    def accepts(self, step: DeliveryStep) -> bool:
        """Carry out *step*; return False if the listener refuses the entries by its answer."""
        try:
            self.carry_out(step)
        except ListenerError as error:
            if error.refused:
                return False
            cause = error.__cause__
            # A subscription's thread survives these, but a test should end by them: Ctrl-C, pytest.fail().
            if cause is not None and not isinstance(cause, Exception | SystemExit):
                raise cause from None
            raise
        finally:
            if self._session is not None:
                self._session.expire_all()
        return True

    @contextmanager
    def _transaction(self) -> Iterator[ListenerSession]:
        if self._outer is None:
            opened = listener_session.transaction(self._engine)
        else:
            with mapped_errors():
                dialects.of(self._outer).begin_write(self._outer)
            opened = listener_session.savepoint(self._outer)
        with opened as session:
            connection = session.connection()
            migrations.require(connection)
            require_transactions(connection)
            try:
                yield session
            except EndedError:
                self._is_committed = commit_mark.was_committed(connection, self._mark)
                raise

    def _claim(
        self,
        connection: Connection,
        step: DeliveryStep,  # noqa: ARG002 - there is no queue to claim
        claimed_us: int,  # noqa: ARG002
        then: Sequence[Statement] = (),
    ) -> None:
        dialects.of(connection).begin_write(connection)
        self._mark = commit_mark.leave(connection)
        for statement, values in then:
            connection.execute(statement, values)

    def _complete(self, connection: Connection, step: DeliveryStep) -> None:  # noqa: ARG002 - no marks, no rows
        commit_mark.remove(connection, self._mark)
        # A test's own transaction goes on, and its later changes are not applied ones.
        for statement, values in dialects.of(connection).naming_origin(""):
            connection.execute(statement, values)

    def _was_committed(self, claimed_us: int) -> bool:  # noqa: ARG002
        return self._is_committed

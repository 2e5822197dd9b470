"""Let a listener change Django's models in the transaction in which the subscriber removes the entries."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from django.db import Error as DjangoDatabaseError
from django.db import connections, transaction
from sqlalchemy import Connection, event, exc

from lr_client.subscriber.listener_session import ListenerSession
from lrq.contrib.django.drivers import habits_of
from lrq.contrib.django.wrappers import wrapper_of
from queues.database.transactions import map_error
from queues.error_facts import facts_of
from queues.errors import ListenerError
from queues.logs import logger

_log = logger("lrq.django")
#: A hook of `transaction.on_commit`, with the savepoints of its time and the flag `robust`.
_Hook = tuple[set[str], Callable[[], object], bool]


@contextmanager
def shared(session: ListenerSession) -> Iterator[None]:
    """Make the connection of *session* that of Django's database in this thread, inside `transaction.atomic()`.

    The block may use `atomic` for savepoints, but can neither commit nor close the connection. Hooks of
    `transaction.on_commit` run after the commit of *session*, on Django's usual connection.

    Raises `ListenerError` after a block that closed the connection, or that left a failed `atomic(savepoint=False)`.
    Raises `StoreUnavailableError` if Django reports that the database cannot be used now.
    """
    connection = session.connection()
    wrapper = wrapper_of(connection)
    _close_old()
    usual = connections[wrapper.alias]
    _lend(wrapper)
    connections[wrapper.alias] = wrapper
    try:
        with _mapped_errors(connection), transaction.atomic(using=wrapper.alias):
            yield
            # Savepoints that are still open must not outlive that of `atomic`.
            session.settle()
            if wrapper.needs_rollback:
                # Django would undo the changes without an error, and the entries would be removed.
                raise ListenerError(
                    "the listener left a failed atomic(savepoint=False) block or called set_rollback(True): "
                    "let the exception pass, or return False"
                )
        hooks = wrapper.run_on_commit
    finally:
        connections[wrapper.alias] = usual
        _take_back(wrapper)
    if hooks:
        event.listen(session, "after_commit", lambda _session: _run_after(connection, hooks))


def _lend(wrapper: Any) -> None:  # noqa: ANN401 - Django has no types
    wrapper.in_atomic_block = wrapper.needs_rollback = wrapper.errors_occurred = False
    wrapper.savepoint_ids, wrapper.atomic_blocks, wrapper.run_on_commit = [], [], []
    wrapper.close = _refuse_close
    wrapper.close_if_unusable_or_obsolete = _keep_open
    habits_of(wrapper).lend(wrapper)


def _take_back(wrapper: Any) -> None:  # noqa: ANN401 - Django has no types
    wrapper.run_on_commit = []
    wrapper.queries_log.clear()
    del wrapper.close, wrapper.close_if_unusable_or_obsolete
    habits_of(wrapper).take_back(wrapper)


def _refuse_close() -> NoReturn:
    raise ListenerError("the listener closed Django's connection, whose transaction is the subscriber's: leave it open")


def _keep_open() -> None:
    """Do nothing: `close_old_connections` concerns Django's own connections."""


@contextmanager
def _mapped_errors(connection: Connection) -> Iterator[None]:
    """Raise `StoreUnavailableError` for Django's errors after which a later try may succeed, as for SQLAlchemy's."""
    try:
        yield
    except DjangoDatabaseError as error:
        driver, cause = connection.dialect.loaded_dbapi.Error, error.__cause__
        if isinstance(cause, driver):
            wrapped = exc.DBAPIError.instance(None, None, cause, driver, dialect=connection.dialect)
            if isinstance(wrapped, exc.DBAPIError) and (mapped := map_error(wrapped)):
                raise mapped from error
        raise


def _run_after(connection: Connection, hooks: list[_Hook]) -> None:
    """Run each of *hooks* once, after the commit; an error is logged, because the entries are applied already."""
    if connection.in_transaction():
        return  # SQLAlchemy also tells of released savepoints
    while hooks:
        _, hook, _ = hooks.pop(0)
        try:
            hook()
        except BaseException as error:  # noqa: BLE001 - the transaction is committed, so no error can refuse the entries
            facts = facts_of(error)
            named = {"hook": getattr(hook, "__qualname__", type(hook).__name__), "error": facts.error_class}
            _log.error("a hook of transaction.on_commit failed", **named, place=facts.place, trace=facts.trace)
    _close_old()


def _close_old() -> None:
    """Close Django's own connections of this thread that are older than CONN_MAX_AGE; a test's transaction stays."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close_if_unusable_or_obsolete()

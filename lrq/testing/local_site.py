"""A site in the process of a test: its database, and in a pair its server, subscriptions and waits."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from operator import not_
from weakref import WeakSet

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from lr_client import RoutingQueueListener, RoutingQueueSenderClient, Subscription, subscribe
from lr_client.subscriber.wait_applied import wait_applied
from lr_server import LogReplicationServer
from lrq.testing import obstacles
from queues.clock import SYSTEM_CLOCK, poll
from queues.errors import UsageError, WaitTimeoutError
from queues.positions import PositionToken

#: The seconds of a site's waits, unless the test says otherwise; a machine that runs many tests stalls.
TIMEOUT: float = 20.0

#: Polls of a subscription in a test, in seconds.
_POLL: float = 0.02
_PAUSE: float = 0.01


class LocalSite:
    """One site of a test; `site` and `pair` make it, and close its subscriptions and sessions at their end.

    Attributes:
        site_id: The id of the site.
        engine: The engine of its database, for the application under test.
        server: The server of the site; None for a site alone.
        others: The other sites of the pair.
    """

    def __init__(self, site_id: str, engine: Engine, stack: ExitStack) -> None:
        """Keep the site's parts; *stack* closes the subscriptions."""
        self.site_id = site_id
        self.engine = engine
        self.server: LogReplicationServer | None = None
        self.others: tuple[LocalSite, ...] = ()
        self._stack = stack
        self._sessions: WeakSet[Session] = WeakSet()

    def session(self) -> Session:
        """Return a new session of the site's database; its end is the test's, at the latest that of the site."""
        made = Session(self.engine)
        self._sessions.add(made)
        return made

    def close_sessions(self) -> None:
        """Close the sessions of `session`, because an open transaction of SQLite keeps all others from writing."""
        for session in tuple(self._sessions):
            session.close()

    @property
    def is_open(self) -> bool:
        """Whether a session of `session` has an open transaction; on SQLite no server can write meanwhile."""
        return any(session.in_transaction() for session in tuple(self._sessions))

    @property
    def _all(self) -> "tuple[LocalSite, ...]":
        return (self, *self.others)

    def send(
        self,
        client: str,
        payload: bytes,
        *destinations: str | Iterable[str],
        item_key: str | None = None,
        partition_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> PositionToken:
        """Transmit one entry and commit; return its token. Without *destinations*, send to all other sites.

        Raises the errors of `RoutingQueueSenderClient.transmit_log_entry_message`.
        """
        named = [name for each in destinations for name in ([each] if isinstance(each, str) else each)]
        targets = named or [other.site_id for other in self.others]
        sender = RoutingQueueSenderClient(client)
        with self.engine.begin() as connection:
            return sender.transmit_log_entry_message(
                connection, payload, targets, item_key=item_key, partition_key=partition_key, headers=headers
            )

    def subscribe(self, listener: RoutingQueueListener, **options: object) -> Subscription:
        """Subscribe *listener* here until the end of the site; *options* are those of `lr_client.subscribe`."""
        quick = {"poll_interval": _POLL, "backoff": _POLL, "max_backoff": 10 * _POLL}
        return self._stack.enter_context(subscribe(self.engine, listener, **{**quick, **options}))  # type: ignore[arg-type]

    def wait_applied(self, token: PositionToken | str, timeout: float = TIMEOUT) -> None:
        """Wait until the subscriber here has applied the transaction of *token*; at most *timeout* seconds.

        Raises `WaitTimeoutError` with the reason, and the errors of `lr_client.wait_applied`.
        """
        wanted = PositionToken.parse(token) if isinstance(token, str) else token
        try:
            wait_applied(self.engine, wanted, timeout)
        except WaitTimeoutError as error:
            source = next((other for other in self.others if other.site_id == wanted.site), None)
            found = [] if source is None else obstacles.between(source, self, wanted.client)
            missing = "no server of that site runs here" if source is None else "the transaction is not committed"
            raise WaitTimeoutError(
                f"after {timeout:g} s {self.site_id} has not applied {wanted}: {'; '.join(found) or missing}"
            ) from error

    def settle(self, timeout: float = TIMEOUT) -> None:
        """Wait until the other sites have applied all entries committed here so far; at most *timeout* seconds.

        Raises `WaitTimeoutError` with the reasons, such as a missing subscriber, and `UsageError` for a site alone.
        """
        if self.server is None:
            raise UsageError(f"{self.site_id} is alone, so nothing is replicated: make two sites with pair()")
        began = SYSTEM_CLOCK.monotonic()
        drained: Exception | None = None
        try:
            self.server.drain(timeout)
        except WaitTimeoutError as error:
            drained = error
        left = max(timeout - (SYSTEM_CLOCK.monotonic() - began), 0.0)
        found = poll(partial(obstacles.of_all, self), not_, timeout=left, pause=_PAUSE)
        if found or drained:
            found += [f"a session of {each.site_id} has an open transaction" for each in self._all if each.is_open]
            raise WaitTimeoutError(
                f"after {timeout:g} s the entries of {self.site_id} are not applied: {'; '.join(found) or drained}"
            ) from drained

    def __repr__(self) -> str:
        return f"LocalSite({self.site_id!r})"

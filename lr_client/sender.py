"""Transmit log entries inside the application's own transaction (docs/design.md, "Applications")."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from lr_client.arguments import MAX_PAYLOAD_BYTES, checked_key, checked_limit, checked_payload
from lr_client.connections.dispatch import awrite, write
from lr_client.snapshot.function_provider import ProvideFunction
from lr_client.snapshot.requests import (
    SnapshotProvider,
    SnapshotTransmitter,
    request_global_snapshot_sync,
    request_snapshot_sync,
)
from lr_client.tracing import current_trace, traced_headers
from lr_client.wait_replicated import wait_replicated
from queues import names
from queues.database.engine_check import described, require_engine
from queues.destinations import DestinationSet, destination_set, site_ids
from queues.errors import UsageError
from queues.positions import PositionToken
from queues.send_log.outbox import NewEntry

if TYPE_CHECKING:
    from lr_client.connections.accepted import AsyncTransmitConnection, TransmitConnection


@dataclass(frozen=True, slots=True)
class LRMessageWithDestinations:
    """One payload and its destinations.

    `item_key` names the item that the payload replaces: entries with one key must be states, never changes. Of those
    in one tick, each site gets only the last. Timing decides which entries share a tick, at most those of the limits
    `tick_rows` and `tick_bytes`, or one larger transaction. `partition_key` is kept with the entry for routing.
    `headers` are a few texts by name that travel with the entry: see docs/headers.md.
    """

    payload: bytes
    destinations: Sequence[str]
    item_key: str | None = None
    partition_key: str | None = None
    headers: Mapping[str, str] | None = None


class RoutingQueueSenderClient:
    """Writes one client's entries into the site's send log.

    The object holds no connection and no state, so one object serves all threads and databases of an application.

    Example:
        >>> client = RoutingQueueSenderClient("policy")
        >>> with Session(engine) as session, session.begin():
        ...     session.add(rule)
        ...     token = client.transmit_log_entry_message(session, payload, ["tokyo", "lima"])

        With psycopg, sqlite3 and Django too, and without blocking with asyncpg and other asynchronous libraries:
        >>> with transaction.atomic():
        ...     client.transmit_log_entry_message(django.db.connection, payload, ["tokyo"])
        >>> async with connection.transaction():
        ...     await client.atransmit_log_entry_message(connection, payload, ["tokyo"])
    """

    def __init__(self, client_name: str, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES, trace: bool = True) -> None:
        """Set the client's name; raise `InvalidNameError` (a `ValueError`) for a malformed name.

        Transmitting a payload above *max_payload_bytes* raises `PayloadTooLargeError`. With *trace*, the headers of an
        entry name the current span of OpenTelemetry, if the application has one.
        Raises `ConfigurationError` for a limit out of range.
        """
        self.client_name = names.client_name(client_name)
        self._limit = checked_limit(max_payload_bytes)
        self._trace = trace

    def transmit_log_entry_message(
        self,
        connection: "TransmitConnection",
        payload: bytes,
        destinations: Iterable[str],
        *,
        item_key: str | None = None,
        partition_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> PositionToken:
        """Write one entry for all *destinations* inside the caller's transaction; the payload is stored once.

        *connection* is a `Session` or `Connection` of SQLAlchemy, a `psycopg.Connection`, a `sqlite3.Connection` or
        `django.db.connection`: docs/transmit.md has an example for each.

        Never commits and opens no connection; a rollback, also to a savepoint, removes the entry. Returns a token for
        `wait_replicated` and `wait_applied`.

        With *item_key* the payload replaces earlier payloads of that item, which sites may then never get. Without
        *item_key*, every entry is sent: see `LRMessageWithDestinations`. *partition_key* is kept with the entry.
        So are *headers*, at most 32 texts by name and 8,192 bytes of JSON.

        Raises:
            ValueError: there is no destination, a malformed one (`InvalidNameError`), this site itself or, with the
                server's `known_destinations_only`, an unknown one (`UnknownDestinationError`), a payload above the
                limit (`PayloadTooLargeError`), or headers beyond it (`InvalidHeadersError`); nothing was written.
            LinkEndedError: an operator has ended the link to a destination: docs/links.md.
            UsageError: *connection* is of another kind; the sentence names those that are taken.
            NotInTransactionError: the connection commits every statement by itself.
            SetupError: the database has no lrq tables, the role has no right to transmit, or a trigger of others leaves
                the entry out.
            StoreUnavailableError: the database is locked, full or gone; SQLAlchemy's own errors pass instead.

        Example:
            >>> with psycopg.connect("dbname=paris") as connection:
            ...     connection.execute("INSERT INTO rules VALUES (%s)", [rule])
            ...     token = client.transmit_log_entry_message(connection, payload, ["tokyo"])
        """
        targets = destination_set(self.client_name, destinations)
        carried = self._headers(headers, self._current_trace())
        entry = self._checked(payload, targets, item_key, partition_key, carried)
        return write(connection, self.client_name, [entry])

    def transmit_log_entry_messages(
        self, connection: "TransmitConnection", messages: Iterable[LRMessageWithDestinations]
    ) -> PositionToken:
        """Write several entries in the given order; faster than one `transmit_log_entry_message` for each.

        Raises like `transmit_log_entry_message`, and `UsageError` for no message or an object of another kind.

        Example:
            >>> messages = [LRMessageWithDestinations(b"one", ["tokyo"]), LRMessageWithDestinations(b"two", ["lima"])]
            >>> with sqlite3.connect("paris.db") as connection:
            ...     token = client.transmit_log_entry_messages(connection, messages)
        """
        return write(connection, self.client_name, self._entries(messages))

    async def atransmit_log_entry_message(
        self,
        connection: "AsyncTransmitConnection",
        payload: bytes,
        destinations: Iterable[str],
        *,
        item_key: str | None = None,
        partition_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> PositionToken:
        """Do the same as `transmit_log_entry_message` on an asynchronous connection; the event loop goes on meanwhile.

        *connection* is an `AsyncSession` or `AsyncConnection` of SQLAlchemy with any driver. Or the connection is a
        `psycopg.AsyncConnection`, an `asyncpg.Connection`, also of a pool, or an `aiosqlite.Connection`. Raises the
        same errors.

        Example:
            >>> async with pool.acquire() as connection, connection.transaction():
            ...     await connection.execute("INSERT INTO rules VALUES ($1)", rule)
            ...     token = await client.atransmit_log_entry_message(connection, payload, ["tokyo"])
        """
        targets = destination_set(self.client_name, destinations)
        carried = self._headers(headers, self._current_trace())
        entry = self._checked(payload, targets, item_key, partition_key, carried)
        return await awrite(connection, self.client_name, [entry])

    async def atransmit_log_entry_messages(
        self, connection: "AsyncTransmitConnection", messages: Iterable[LRMessageWithDestinations]
    ) -> PositionToken:
        """Do the same as `transmit_log_entry_messages` on an asynchronous connection.

        Example:
            >>> async with AsyncSession(engine) as session, session.begin():
            ...     token = await client.atransmit_log_entry_messages(session, messages)
        """
        return await awrite(connection, self.client_name, self._entries(messages))

    def wait_replicated(
        self, engine: Engine, token: PositionToken | str, destinations: Iterable[str], timeout: float
    ) -> None:
        """Wait until each of *destinations* has stored everything up to *token* durably; at most *timeout* seconds.

        Raises `WaitTimeoutError`, which names the sites that are missing entries. Raises ValueError for a malformed
        site or token, and for this site itself (`UnknownDestinationError`). Raises `UsageError` for a token of another
        client, whose entries another session sends, and of another site. Raises `VersionLostError` at once if a
        promotion or a restore of this site has lost the transaction.
        """
        require_engine(engine, "wait_replicated")
        wait_replicated(engine, self.client_name, token, site_ids(destinations), timeout)

    def start_snapshot_transmitter(
        self,
        engine: Engine,
        provider: SnapshotProvider | ProvideFunction,
        *,
        share_window: float = 0.25,
        parallel: int = 2,
    ) -> SnapshotTransmitter:
        """Serve this client's snapshot requests with *provider*, in threads of this process, until `close()`.

        A provider is an object with the methods of `SnapshotProvider`, or a function `(context)`. A function's return
        completes the snapshot.

        Requests of several sites within *share_window* seconds share one build, whose rows are stored once. With 0, or
        when the provider reads `context.destination`, each site gets its own build. Up to *parallel* builds run at a
        time, and each needs three connections.

        Raises `ConfigurationError` for a number out of range, and `UsageError` for an object that is no engine. Raises
        `UsageError` also for a provider that is a class, or whose methods are `async def` or have other parameters.
        """
        return SnapshotTransmitter(
            engine,
            self.client_name,
            provider,
            max_payload_bytes=self._limit,
            share_window=share_window,
            parallel=parallel,
        )

    def request_snapshot_sync(self, session: Session | Connection, destination: str) -> None:
        """Ask for a full snapshot for one site, in the caller's transaction; the newest request wins.

        Raises ValueError for a malformed site (`InvalidNameError`) or this site itself (`UnknownDestinationError`).
        Raises `LinkEndedError` if the link has ended, and `SetupError` without lrq tables. Raises
        `NotInTransactionError` for a connection that commits every statement by itself.
        """
        request_snapshot_sync(session, self.client_name, destination)

    def request_global_snapshot_sync(self, session: Session | Connection) -> None:
        """Ask for a full snapshot for every known site, in the caller's transaction."""
        request_global_snapshot_sync(session, self.client_name)

    def _headers(self, headers: Mapping[str, str] | None, trace: Mapping[str, str]) -> str | None:
        return None if headers is None and not trace else traced_headers(headers, trace)

    def _current_trace(self) -> Mapping[str, str]:
        return current_trace() if self._trace else {}

    def _checked(
        self,
        payload: bytes,
        destinations: DestinationSet,
        item_key: str | None,
        partition_key: str | None,
        headers: str | None,
    ) -> NewEntry:
        return NewEntry(
            checked_payload(payload, self._limit),
            destinations,
            checked_key(item_key, "item_key"),
            checked_key(partition_key, "partition_key"),
            headers,
        )

    def _entries(self, messages: Iterable[LRMessageWithDestinations]) -> list[NewEntry]:
        """Check *messages*; raise `UsageError` for none, or for an object of another kind."""
        entries: list[NewEntry] = []
        trace = self._current_trace()
        seen: object = None
        for message in messages:
            try:
                given = message.destinations
            except AttributeError:
                raise UsageError(
                    f"a message is a LRMessageWithDestinations(payload, destinations), not {described(message)}"
                ) from None
            # Comparing hundreds of names is faster than hashing them. Keep a copy: the caller may change the list.
            if seen is None or given != seen:
                targets = destination_set(self.client_name, given)
                seen = given[:] if isinstance(given, list | tuple) else None
            headers = self._headers(message.headers, trace)
            entry = self._checked(message.payload, targets, message.item_key, message.partition_key, headers)
            entries.append(entry)
        if not entries:
            raise UsageError("there is no message to transmit")
        return entries

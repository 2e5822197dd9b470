"""The store of one member of a token: the record of the agreement and the log, in one SQLite file."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, assert_never

from sqlalchemy import Connection, Engine

from lr_server.protocol.agreement.effects import Durable, KeepPromise, KeepRecord, KeepStore, KeepTicks
from lr_server.protocol.agreement.history import GenerationStart, TickHistory, TickMark
from lr_server.protocol.agreement.record import MemberRecord, StoreId
from queues.database.transactions import reading, writing
from queues.errors import ConfigurationError, CorruptFrameError, DataLossError, StoreTakenError
from queues.send_log.destination_sets import SetDictionary
from queues.send_log.ring import member_rows
from queues.send_log.ring.member_rows import MemberRow
from queues.send_log.ring.ring_log import log_end, read_ticks, replace_ticks
from queues.send_log.ring.tick_contents import LogEnd, TickContent

#: The most bytes of entries in one answer of `TokenStore.read`, unless the first tick alone is larger.
MOST_BYTES: Final = 8 * 1024 * 1024


def mark_of(content: TickContent) -> TickMark:
    """Return the tick as the agreement names it."""
    return TickMark(content.generation, content.tick.number)


class TokenStore:
    """The durable effects of one member, each in one transaction, which is on the disk when the call returns.

    Each store of a file fences those that were opened earlier: their writes raise `StoreTakenError`. A failed write
    has changed nothing. All methods raise `StoreUnavailableError` if the file is locked, full or unreachable. Not for
    several threads.
    """

    def __init__(self, engine: Engine, token: int) -> None:
        """Open the initialised database of *engine* for *token*, and fence the stores of the file opened before.

        Raises `ConfigurationError` for a database whose commits are not durable, and for one with another log.
        """
        self._engine = engine
        self._token = token
        self._opening = secrets.randbits(62)
        self._dictionary = SetDictionary()
        with writing(engine) as connection:
            member_rows.require_durable(connection)
            found = member_rows.find_member(connection)
            if found is not None and found.token != token:
                raise ConfigurationError(
                    f"the database holds token {found.token}, not token {token}: give its own file"
                )
            member_rows.begin_log(connection, token)
            member_rows.write_opening(connection, self._opening)

    def record(self) -> MemberRecord | None:
        """Return the record of the member; None for a store that does not count, which is a newcomer's.

        Raises `DataLossError` if the parts of the record contradict each other.
        """
        with reading(self._engine) as connection:
            found = member_rows.find_member(connection)
            if found is None:
                return None
            history = _history(connection)
            counted = tuple(StoreId(*store) for store in member_rows.stores(connection))
            newest = log_end(connection).generation
        if history.newest.generation != newest or found.promised < newest or len(counted) <= found.rank:
            raise DataLossError(
                f"the record of token {self._token} has lost rows: empty this store, so that it begins as a newcomer"
            )
        return MemberRecord(found.rank, counted, found.promised, history)

    def history(self) -> TickHistory:
        """Return the ticks of the log."""
        with reading(self._engine) as connection:
            return _history(connection)

    def end(self) -> LogEnd:
        """Return the newest tick of the log."""
        with reading(self._engine) as connection:
            return log_end(connection)

    def read(self, after: int, most: int, most_bytes: int = MOST_BYTES) -> list[TickContent]:
        """Return the ticks after number *after*: up to *most* and up to *most_bytes* of entries, but at least one."""
        with reading(self._engine) as connection:
            return read_ticks(connection, after, most, most_bytes)

    def keep(self, effect: Durable, contents: Sequence[TickContent] = ()) -> None:
        """Carry out *effect*; *contents* are the ticks of `KeepTicks`, in their order.

        Raises `DataLossError` if the contents belong to another history, and `CorruptFrameError` if they contradict
        themselves or the effect.
        """
        if isinstance(effect, KeepRecord):
            self._begin(effect.record)
            return
        with self._writing() as connection:
            member_rows.check_opening(connection, self._opening)
            match effect:
                case KeepPromise(generation=generation):
                    member_rows.write_promise(connection, generation)
                case KeepTicks(after=after, ticks=ticks):
                    if tuple(map(mark_of, contents)) != ticks:
                        raise CorruptFrameError(f"the contents of ticks {ticks} belong to other ticks")
                    replace_ticks(connection, self._dictionary, after, contents)
                case KeepStore(rank=rank, store=store):
                    member_rows.write_store(connection, rank, *store)
                case _:
                    assert_never(effect)

    def copy(self, after: int, contents: Sequence[TickContent]) -> None:
        """Store *contents* after tick number *after*, in a store that does not count yet.

        Raises the errors of `keep`, and `StoreTakenError` for a store that counts.
        """
        with self._writing() as connection:
            self._require_newcomer(connection)
            replace_ticks(connection, self._dictionary, after, contents)

    def disown(self) -> None:
        """Let the store count no more, because nothing proves that it is whole. The log stays, for a copy to follow."""
        with self._writing() as connection:
            member_rows.check_opening(connection, self._opening)
            member_rows.forget_member(connection)

    def _begin(self, record: MemberRecord) -> None:
        with self._writing() as connection:
            self._require_newcomer(connection)
            if _history(connection) != record.history:
                raise CorruptFrameError("the copied log ends elsewhere than the record beside it")
            row = MemberRow(self._token, record.rank, record.promised, self._opening)
            member_rows.write_member(connection, row, record.stores)

    def _require_newcomer(self, connection: Connection) -> None:
        if member_rows.find_member(connection) is not None:
            raise StoreTakenError("another process has made this store count: this one stands down")

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        try:
            with writing(self._engine) as connection:
                yield connection
        except BaseException:
            self._dictionary.forget()
            raise


def _history(connection: Connection) -> TickHistory:
    starts = tuple(GenerationStart(*each) for each in member_rows.generations(connection))
    return TickHistory(starts, member_rows.newest_number(connection))

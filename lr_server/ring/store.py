"""The store of one member of a token: the record of the agreement and the log, in one SQLite file."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, assert_never

from sqlalchemy import Connection, Engine

from lr_server.protocol.agreement.effects import Durable, KeepPromise, KeepRecord, KeepStore, KeepTicks
from lr_server.protocol.agreement.history import GenerationStart, TickHistory, TickMark
from lr_server.protocol.agreement.record import MemberRecord, StoreId
from lr_server.ring.recent_ticks import RecentTicks
from lr_server.ring.witness import StoreWitness
from queues.database.transactions import reading, writing
from queues.errors import ConfigurationError, CorruptFrameError, DataLossError, StoreTakenError
from queues.send_log.destination_sets import SetDictionary
from queues.send_log.ring import log_base, member_rows, member_trim
from queues.send_log.ring.log_base import LogBase, StoredRequest
from queues.send_log.ring.member_rows import MemberRow
from queues.send_log.ring.ring_log import log_end, read_ticks, remove_all, replace_ticks
from queues.send_log.ring.tick_contents import LogEnd, TickContent, first_within

#: The most bytes of ticks, keys and destinations included, in one answer of `TokenStore.read`; the first tick may
#: be larger.
MOST_BYTES: Final = 8 * 1024 * 1024


def mark_of(content: TickContent) -> TickMark:
    """Return the tick as the agreement names it."""
    return TickMark(content.generation, content.tick.number)


class TokenStore:
    """The durable effects of one member, each in one transaction, which is on the disk when the call returns.

    A store counts only if its witness knows the last durable step. So a copy from a backup does not count.

    Each store of a file fences those that were opened earlier: their writes raise `StoreTakenError`. A failed write
    has changed nothing, or the member has said nothing of it. The caller ends the member then. All methods raise
    `StoreUnavailableError` if the file or the witness is locked, full or unreachable. Not for several threads.
    """

    def __init__(self, engine: Engine, token: int, witness: StoreWitness) -> None:
        """Open the initialised database of *engine* for *token*, and fence the stores of the file opened before.

        The store owns *witness*. Raises `ConfigurationError` for a database whose commits are not durable, and for one
        with another log.
        """
        self._engine = engine
        self._token = token
        self._witness = witness
        self._dictionary = SetDictionary()
        self._step = 0
        self._recent = RecentTicks()
        try:
            self._found = self._open()
            self._doubt = _doubt(self._found, witness.step)
            if self._found is not None and self._doubt is None:
                # Now both know the same step, however often a start is broken off.
                witness.write(self._found.step)
                self._step = self._found.step
                with self._stepping():
                    pass
        except BaseException:
            witness.close()
            raise

    def _open(self) -> MemberRow | None:
        with writing(self._engine) as connection:
            member_rows.require_durable(connection)
            found = member_rows.find_member(connection)
            if found is not None and found.token != self._token:
                words = f"the database holds token {found.token}, not token {self._token}: give each token its own file"
                raise ConfigurationError(words)
            member_rows.begin_log(connection, self._token)
            return found

    @property
    def doubt(self) -> str | None:
        """The reason why the record in the file is not believed; None without a doubt.

        A start with the right witness may still believe it, as long as nothing was copied into the store.
        """
        return self._doubt

    @property
    def is_witnessed(self) -> bool:
        """Whether the witness knows a step of this store, or of one that was here before."""
        return self._witness.step is not None

    def close(self) -> None:
        """Let another process open the store."""
        self._witness.close()

    def record(self) -> MemberRecord | None:
        """Return the record of the member; None for a store that does not count, which is a newcomer's.

        Raises `DataLossError` if the parts of the record contradict each other.
        """
        if self._doubt is not None:
            return None
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
        if (newest := self._recent.newest) is not None:
            return LogEnd(newest.generation, newest.tick)
        with reading(self._engine) as connection:
            return log_end(connection)

    def read(self, after: int, most: int, most_bytes: int = MOST_BYTES) -> list[TickContent]:
        """Return the ticks after number *after*: up to *most* and up to *most_bytes*, but at least one.

        Raises `TrimmedError` if the next tick is trimmed.
        """
        if found := self._recent.read(after, most, most_bytes):
            return found
        with reading(self._engine) as connection:
            found = read_ticks(connection, after, most, most_bytes)
        return first_within(found, most_bytes)

    def trimmed(self) -> int:
        """Return the number of the newest trimmed tick; 0 for a whole log."""
        with reading(self._engine) as connection:
            return member_trim.trimmed_number(connection)

    def read_base(self) -> LogBase:
        """Return the beginning of a trimmed log; raise `StoreUnavailableError` for a log that is whole."""
        with reading(self._engine) as connection:
            return log_base.read_base(connection)

    def read_requests(self, after: int, upto: int) -> list[StoredRequest]:
        """Return some requests of producers whose last entry is above number *after*, and none above *upto*."""
        with reading(self._engine) as connection:
            return log_base.requests_between(connection, after, upto)

    def trim(self, upto: int) -> bool:
        """Trim some of the ticks up to number *upto*, durably; return whether all of them are trimmed.

        The ticks are released, and this log keeps enough ticks after them.
        """
        with self._stepping() as connection:
            return member_trim.trim_upto(connection, upto)

    def keep(self, effect: Durable, contents: Sequence[TickContent] = ()) -> None:
        """Carry out *effect*; *contents* are the ticks of `KeepTicks`, in their order.

        Raises `DataLossError` if the contents belong to another history, and `CorruptFrameError` if they contradict
        themselves or the effect.
        """
        if isinstance(effect, KeepRecord):
            self._begin(effect.record)
            return
        with self._stepping() as connection:
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
        if isinstance(effect, KeepTicks):
            self._recent.keep(effect.after, contents)

    def copy(self, after: int, contents: Sequence[TickContent]) -> None:
        """Store *contents* after tick number *after*, in a store that does not count yet.

        Raises the errors of `keep`, and `StoreTakenError` for a store that counts.
        """
        with self._copying() as connection:
            if not after:
                remove_all(connection)
            replace_ticks(connection, self._dictionary, after, contents)

    def copy_base(self, base: LogBase) -> None:
        """Replace the log by the beginning of a trimmed one; raises as `copy` does."""
        with self._copying() as connection:
            log_base.begin_from(connection, base)

    def copy_requests(self, requests: Sequence[StoredRequest]) -> None:
        """Store the next requests beside the beginning of a trimmed log; raises as `copy` does."""
        with self._copying() as connection:
            log_base.insert_requests(connection, requests)

    @contextmanager
    def _copying(self) -> Iterator[Connection]:
        with self._writing() as connection:
            self._require_newcomer(connection)
            self._recent.forget()
            yield connection

    def _begin(self, record: MemberRecord) -> None:
        step = secrets.randbits(62)
        with self._writing() as connection:
            self._require_newcomer(connection)
            if _history(connection) != record.history:
                raise CorruptFrameError("the copied log ends elsewhere than the record beside it")
            row = MemberRow(self._token, record.rank, record.promised, step, 0)
            member_rows.write_member(connection, row, record.stores)
        self._witness.write(step)
        self._step, self._doubt = step, None

    def _require_newcomer(self, connection: Connection) -> None:
        """Refuse a record that counts, and forget one that is not believed."""
        there = member_rows.find_member(connection)
        if there is None:
            return
        if self._doubt is None or there != self._found:
            raise StoreTakenError("the store counts already, or another process has made it count")
        member_rows.forget_member(connection)

    @contextmanager
    def _stepping(self) -> Iterator[Connection]:
        """Write a durable step: first in the store, then in the witness."""
        step = secrets.randbits(62)
        with self._writing() as connection:
            member_rows.take_step(connection, self._step, step)
            yield connection
        self._witness.write(step)
        self._step = step

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        try:
            with writing(self._engine) as connection:
                yield connection
        except BaseException:
            self._dictionary.forget()
            self._recent.forget()
            raise


def _history(connection: Connection) -> TickHistory:
    starts = tuple(GenerationStart(*each) for each in member_rows.generations(connection))
    return TickHistory(starts, member_rows.newest_number(connection))


def _doubt(found: MemberRow | None, known: int | None) -> str | None:
    """Return the reason why the row of a member is not believed. Pure.

    A crash may leave the store one step ahead of the witness.
    """
    if found is None or (known is not None and known in (found.step, found.step_before)):
        return None
    if known is None:
        return "its witness is lost or new, so nothing proves that the store is whole"
    return "its witness knows another last step, so the store is a copy or was restored"

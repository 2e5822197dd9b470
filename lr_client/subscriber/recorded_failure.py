"""The failure that keeps a queue or a shard from its next step, in memory and in the database."""

from sqlalchemy import Engine

from queues.database.transactions import reading, writing_briefly
from queues.error_facts import ErrorFacts
from queues.receive import failures
from queues.receive.failures import Failure

#: The `seq` of a failure before any row was read.
_UNREAD = 0


class RecordedFailure:
    """The refusal by the listener, or else the errors that stop one step; the status shows the stored one.

    The memory may be ahead of the database: an error may keep a failure from being stored.
    """

    def __init__(self, engine: Engine, queue_id: int, shard: int | None) -> None:
        """Know no failure before `load`."""
        self._engine = engine
        self._queue_id = queue_id
        self._shard = shard
        self._refusal: Failure | None = None
        self._stop: Failure | None = None

    @property
    def exists(self) -> bool:
        """Whether there is a failure."""
        return self._refusal is not None or self._stop is not None

    def load(self) -> None:
        """Read the failure that an earlier subscriber has stored."""
        with reading(self._engine) as connection:
            self._refusal = failures.last(connection, self._queue_id, self._shard)

    def refused(self, seq: int, facts: ErrorFacts) -> Failure:
        """Count a refusal by the listener of the entry at *seq*; the caller stores the result, or parks the entry."""
        self._refusal = failures.again(self._refusal, seq, facts)
        return self._refusal

    def store(self, failure: Failure) -> None:
        """Store *failure* as the last one."""
        failures.record(self._engine, self._queue_id, failure, self._shard)

    def troubled(self, facts: ErrorFacts, troubles: int) -> None:
        """Store an error that has come before the listener's call, *troubles* times in a row."""
        known = self._refusal
        seq, tries = (known.seq, max(known.tries, troubles)) if known else (_UNREAD, troubles)
        self._refusal = failures.again(known, seq, facts)._replace(tries=tries)
        self.store(self._refusal)

    def stopped(self, seq: int, facts: ErrorFacts, troubles: int) -> None:
        """Store errors of the database that have stopped the step at *seq*, *troubles* times in a row."""
        failure = failures.again(self._stop or self._refusal, seq, facts)._replace(tries=troubles)
        self.store(failure)
        self._stop = failure

    def forget(self) -> None:
        """Forget the failure after a step whose transaction has deleted the stored one."""
        self._refusal = self._stop = None

    def clear(self) -> None:
        """Delete the failure of a queue in which nothing is left to deliver."""
        if self.exists:
            with writing_briefly(self._engine) as connection:
                failures.clear(connection, self._queue_id, self._shard)
            self.forget()

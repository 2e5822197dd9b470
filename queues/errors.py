"""All errors of lrq in one tree; each branch asks for one reaction of the caller.

    * LrqError
      x UsageError            correct the call; nothing was written
        + InvalidNameError      (also a ValueError)
        + InvalidPositionError  (also a ValueError)
        + PayloadTooLargeError  (also a ValueError)
        + PayloadTypeError      (also a TypeError)
        + InvalidKeyError       (also a ValueError)
        + InvalidHeadersError   (also a ValueError)
        + DestinationsError     (also a ValueError)
          + UnknownDestinationError
          + LinkEndedError
        + NotInTransactionError
      x SetupError            follow the sentence: run, install or correct something
        + NotInitializedError
        + SchemaMismatchError
        + WrongSiteError
        + ConfigurationError
        + MissingDependencyError
        + PackageClashError     (also an ImportError)
      x TransientError        try again later; nothing was lost
        + PeerUnreachableError
        + StoreUnavailableError
        + ServingUnknownError   ask at the source of the replicas, or at another member
        + WaitTimeoutError      (also a TimeoutError)
          + OutcomeUnknownError   do not repeat the call: the producer repeats its request itself
      x NeedsFullSyncError    only a full snapshot helps
        + TrimmedError
      x VersionLostError      write again: a promotion has lost the transaction of the token
      x DataLossError         restore the tables that the sentence names from a backup
      x OwnershipLostError    stop working: another owner has taken over
        + OtherIncarnationError take the lease again: the database was promoted, restored or copied
      x StoreTakenError       stop working: another process has opened the store of the ring's member
      x ProducerTakenError    give each process a producer name of its own
      x ThreadEndedError      nothing: the lease is released, and the sentence names the bug to report
      x ListenerError         the listener refused a batch or ended its transaction; the batch returns
      x ProtocolError         the peers disagree; the sentence names the peer and the reason
        + CorruptFrameError
      x SnapshotError
        + SnapshotCancelledError
        + SnapshotFailedError

Every sentence names the failure, and the remedy if there is one.
"""


class LrqError(Exception):
    """The base of every error that lrq raises on purpose."""


class UsageError(LrqError):
    """The call is wrong; nothing was written."""


class InvalidNameError(UsageError, ValueError):
    """A site id, client name, destination or queue name is malformed."""


class InvalidPositionError(UsageError, ValueError):
    """A position token cannot be parsed."""


class PayloadTooLargeError(UsageError, ValueError):
    """A payload is above the limit; nothing was written."""

    def __init__(self, size: int, limit: int) -> None:
        """Keep *size* and *limit*, both in bytes."""
        super().__init__(f"the payload has {size} bytes, the limit is {limit}: split it, or raise the limit")
        self.size = size
        self.limit = limit


class PayloadTypeError(UsageError, TypeError):
    """A payload is not bytes."""


class InvalidKeyError(UsageError, ValueError):
    """An item key or partition key is not a text that every database can store."""


class InvalidHeadersError(UsageError, ValueError):
    """The headers of an entry are too many, too large, or no texts that every database can store."""


class DestinationsError(UsageError, ValueError):
    """No destination was given, or the argument is not a collection of site ids."""


class UnknownDestinationError(DestinationsError):
    """A destination is the site itself, or (with `known_destinations_only`) no peer of the site."""


class LinkEndedError(DestinationsError):
    """The link of the client to a destination has ended, so the whole call is refused.

    Leave the destination out, or let an operator begin the link again: `lrq link begin`.
    """


class NotInTransactionError(UsageError):
    """The session or connection commits every statement by itself, so the call cannot be part of a transaction."""


class SetupError(LrqError):
    """Something must be installed, configured or migrated first; the sentence names the command."""


class NotInitializedError(SetupError):
    """The database has no lrq tables."""


class SchemaMismatchError(SetupError):
    """The tables are older or newer than this version of lrq."""


class WrongSiteError(SetupError):
    """The database belongs to another site."""


class ConfigurationError(SetupError):
    """A setting is missing or contradicts another."""


class MissingDependencyError(SetupError):
    """An optional package or program is not installed."""


class PackageClashError(SetupError, ImportError):
    """Another package with the name of one of lrq's packages comes first on `sys.path`."""


class TransientError(LrqError):
    """The call failed, but may succeed later; nothing was lost."""


class PeerUnreachableError(TransientError):
    """The other site does not answer."""


class StoreUnavailableError(TransientError):
    """The database is locked, full, read-only, stopping or gone."""


class ServingUnknownError(TransientError):
    """The site cannot tell now which member of a group of replicas serves."""


class WaitTimeoutError(TransientError, TimeoutError):
    """The time limit has passed; the awaited event may still happen."""


class OutcomeUnknownError(WaitTimeoutError):
    """The request of a producer may be stored: its answer did not come in time.

    The producer keeps the request, and repeats the request before any later one. So the messages must not be sent
    again. `sequence` is the number of the request: a new process finds out by `Producer.last_sequence`.
    """

    def __init__(self, sentence: str, *, sequence: int) -> None:
        """Keep the number of the request, which counts from 1."""
        super().__init__(sentence)
        self.sequence = sequence


class NeedsFullSyncError(LrqError):
    """The log cannot continue from that position; only a full snapshot helps."""


class TrimmedError(NeedsFullSyncError):
    """The entries after *requested* have been trimmed."""

    def __init__(self, requested: int, oldest: int) -> None:
        """Keep both sequence numbers; all entries up to and including *oldest* are trimmed."""
        super().__init__(f"entries after {requested} were asked for, but those up to {oldest} are already trimmed")
        self.requested = requested
        self.oldest = oldest


class VersionLostError(LrqError):
    """The transaction of a token is not in the source's history any more, because of a promotion or a restore."""


class DataLossError(LrqError):
    """Rows that other rows need are lost from the database; a retry cannot bring them back."""


class OwnershipLostError(LrqError):
    """Another process owns this site or subscription now; the process must stop its work."""

    def __init__(self, name: str, held: int, current: int) -> None:
        """Keep the name of the lease, the generation *held* by the caller and the *current* generation."""
        super().__init__(f"{name}: generation {held} was taken over by generation {current}; this process stands down")
        self.name = name
        self.held = held
        self.current = current


class StoreTakenError(LrqError):
    """Another process has opened the store of a member of a ring; the process must stop its work on it."""


class OtherIncarnationError(OwnershipLostError):
    """The database was promoted, restored or copied since its log began the current branch.

    The process must take the lease *name* again, because only that begins a new branch.
    """

    def __init__(self, name: str, held: int) -> None:
        """Keep the name of the lease and the generation *held* by the caller, which nothing has taken over."""
        super().__init__(name, held, held)
        self.args = (f"{name}: the database was promoted, restored or copied; this process begins its work again",)


class ProducerTakenError(LrqError):
    """The site has requests of this producer that another process has sent under the same name."""


class ThreadEndedError(LrqError):
    """A thread or a job of lrq has ended by an error of its own; the cause is attached."""


class ListenerError(LrqError):
    """A listener returned False or broke its contract; the same entries are delivered again.

    The transaction is rolled back, unless the listener has already committed it; the sentence then says so.
    """

    def __init__(self, sentence: str, *, refused: bool = False) -> None:
        """Keep whether the listener has *refused* the entries by its answer False."""
        super().__init__(sentence)
        self.refused = refused


class ProtocolError(LrqError):
    """Two peers do not follow the same protocol."""


class CorruptFrameError(ProtocolError):
    """A frame or entry is truncated, has a wrong checksum, or lacks a required field."""


class SnapshotError(LrqError):
    """A snapshot did not complete."""


class SnapshotCancelledError(SnapshotError):
    """The snapshot was cancelled: a newer request or another attempt replaced it."""


class SnapshotFailedError(SnapshotError):
    """The snapshot attempt failed; another attempt follows after a delay."""


def first_line(error: object) -> str:
    """Return the first line of the text of *error*; later lines may contain statements and payloads."""
    return str(error).strip().partition("\n")[0].rstrip()

"""The one tree of errors, by what the caller can do.

* LrqError
  x UsageError            correct the call; nothing was written
    + InvalidNameError      (also a ValueError)
    + InvalidPositionError  (also a ValueError)
    + PayloadTooLargeError  (also a ValueError)
    + NotInTransactionError
  x SetupError            run or install what the sentence says
    + NotInitializedError
    + SchemaMismatchError
    + WrongSiteError
    + ConfigurationError
    + MissingDependencyError
    + PackageClashError     (also an ImportError)
  x TransientError        try again later; nothing was lost
    + PeerUnreachableError
    + StoreUnavailableError
    + WaitTimeoutError      (also a TimeoutError)
  x NeedsFullSyncError    only a full snapshot helps
    + TrimmedError
    + NoCommonHistoryError
  x OwnershipLostError    stop working: another owner has taken over
  x ListenerError         the listener refused a batch, or broke its contract; the batch comes back
  x ProtocolError         the peers disagree; the sentence says who and about what
    + CorruptFrameError
    + WrongPeerError
    + GapError
  x SnapshotError
    + SnapshotCancelledError
    + SnapshotFailedError
"""


class LrqError(Exception):
    """Base of every error that lrq raises on purpose."""


class UsageError(LrqError):
    """The call cannot be carried out as it was made; nothing was written."""


class InvalidNameError(UsageError, ValueError):
    """A site id, client name, destination or queue name is malformed."""


class InvalidPositionError(UsageError, ValueError):
    """A position token cannot be parsed."""


class PayloadTooLargeError(UsageError, ValueError):
    """A payload is above the limit, so it is refused before anything is written."""

    def __init__(self, size: int, limit: int) -> None:
        """Keep *size* and *limit*, both in bytes."""
        super().__init__(f"the payload has {size} bytes, the limit is {limit}: split it, or raise the limit")
        self.size = size
        self.limit = limit


class NotInTransactionError(UsageError):
    """The session or connection commits every statement by itself, so nothing can be transactional."""


class SetupError(LrqError):
    """Something must be installed, configured or migrated first; the sentence says what to run."""


class NotInitializedError(SetupError):
    """The database has no lrq tables."""


class SchemaMismatchError(SetupError):
    """The tables are older or newer than this software."""


class WrongSiteError(SetupError):
    """The database belongs to another site."""


class ConfigurationError(SetupError):
    """A setting is missing or contradicts another."""


class MissingDependencyError(SetupError):
    """An optional package or program is not there."""


class PackageClashError(SetupError, ImportError):
    """Another package of the same name stands before ours on `sys.path`."""


class TransientError(LrqError):
    """The same call may succeed later; nothing was lost."""


class PeerUnreachableError(TransientError):
    """The other site does not answer."""


class StoreUnavailableError(TransientError):
    """The database is locked, full, read-only, stopping or gone."""


class WaitTimeoutError(TransientError, TimeoutError):
    """What was waited for did not happen in time; it may still happen."""


class NeedsFullSyncError(LrqError):
    """The log cannot be continued from that position; only a full snapshot helps."""


class TrimmedError(NeedsFullSyncError):
    """The entries after *requested* are no longer kept."""

    def __init__(self, requested: int, oldest: int) -> None:
        """Keep both sequence numbers; entries up to and with *oldest* are gone."""
        super().__init__(f"entries after {requested} were asked for, but those up to {oldest} are already trimmed")
        self.requested = requested
        self.oldest = oldest


class NoCommonHistoryError(NeedsFullSyncError):
    """Source and sink share no header, so no position means the same to both."""


class OwnershipLostError(LrqError):
    """Another process owns this site or subscription now; this one must stop."""

    def __init__(self, name: str, held: int, current: int) -> None:
        """Name the lease, the generation that the caller *held* and the *current* one."""
        super().__init__(f"{name}: generation {held} was taken over by generation {current}; this process stands down")
        self.name = name
        self.held = held
        self.current = current


class ListenerError(LrqError):
    """A listener returned False or broke its contract; all was rolled back, and the entries come back."""


class ProtocolError(LrqError):
    """Two peers disagree about the protocol."""


class CorruptFrameError(ProtocolError):
    """A frame or entry is truncated, fails its checksum, or lacks a required field."""


class WrongPeerError(ProtocolError):
    """The peer that answered is another site than the one that was meant."""


class GapError(ProtocolError):
    """A batch begins after the position that the sink has reached."""


class SnapshotError(LrqError):
    """A snapshot did not complete."""


class SnapshotCancelledError(SnapshotError):
    """The snapshot was cancelled: a newer request replaced it, or its attempt was taken over."""


class SnapshotFailedError(SnapshotError):
    """The snapshot attempt failed; it is tried again with backoff."""

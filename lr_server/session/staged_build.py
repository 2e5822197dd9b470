"""The build whose rows a sink has staged: rows of two builds of one snapshot must not mix. Pure."""

from typing import Final

from lr_server.protocol.histories import StagedSnapshot
from queues.send_snapshot import SnapshotSync

#: No build has this name.
_MIXED: Final = "mixed"


class StagedBuild:
    """Remembers for one session which build its sink's staged rows are of; for the session's thread.

    A sink names the snapshot of its staged rows, but not the build. A new attempt has other rows under the same name.
    The stream's thread may call `forget_build`.
    """

    def __init__(self) -> None:
        """Begin without staged rows."""
        self._sync_id = ""
        self._rows = 0
        # Empty for the build of an earlier server.
        self._build = ""

    def told(self, staged: StagedSnapshot | None) -> None:
        """Note the *staged* rows that the sink tells in its answer to a negotiation."""
        sync_id = "" if staged is None else staged.sync_id
        self._build = self._build if sync_id == self._sync_id else ""
        self._sync_id, self._rows = sync_id, 0 if staged is None else staged.rows

    def sends(self, found: SnapshotSync) -> None:
        """Note that rows of the build of *found* are sent from now on."""
        self._sync_id, self._build = found.sync_id, found.build

    def forget_build(self) -> None:
        """Note that the staged rows are of no published try of their build."""
        self._build = _MIXED

    def kept_rows(self, found: SnapshotSync) -> int | None:
        """Return the first rows of *found* that the sink need not get again; None if it must forget staged rows.

        Of the rows that an earlier server has sent, only those of a first attempt are sure.
        """
        if not self._rows or self._sync_id != found.sync_id:
            return 0
        is_only = not self._build and found.attempt == 1
        return self._rows if is_only or self._build == found.build else None

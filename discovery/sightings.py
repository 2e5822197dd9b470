"""Servers whose renewals have ended although the database's clock says otherwise, because it has gone back. Pure."""

from queues.leadership import ServerRow


class Sightings:
    """Remembers for each server when a look first saw its present expiry, by the monotonic clock of this process.

    A row that does not change until its time has passed by that clock is overdue, whatever its expiry.
    """

    def __init__(self, *, slack: float, longest: float) -> None:
        """Wait *slack* seconds more than a row's time, and at most *longest* seconds in all."""
        self._slack = slack
        self._longest = longest
        self._until: dict[str, tuple[int, float]] = {}

    def is_overdue(self, row: ServerRow, now_us: int, monotonic: float) -> bool:
        """Note *row*, as seen at the database's time *now_us*; return whether its renewals have ended."""
        expires_us, until = self._until.get(row.server, (None, 0.0))
        if expires_us != row.expires_us:
            until = monotonic + min((row.expires_us - now_us) / 1e6, self._longest) + self._slack
            self._until[row.server] = row.expires_us, until
        return monotonic > until

    def keep(self, servers: frozenset[str]) -> None:
        """Forget all other servers."""
        self._until = {server: seen for server, seen in self._until.items() if server in servers}

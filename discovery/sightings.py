"""Servers and owners that renew no more, though the clock of the database, which has gone back, denies that. Pure."""


class Sightings:
    """Remembers for each name when a look first saw its present expiry, by the monotonic clock of this process.

    A row that does not change until its time has passed by that clock is overdue, for any expiry.
    """

    def __init__(self, *, slack: float, longest: float) -> None:
        """Wait *slack* seconds more than a row's time, and at most *longest* seconds in all."""
        self._slack = slack
        self._longest = longest
        self._until: dict[str, tuple[int, float]] = {}

    def is_overdue(self, name: str, expires_us: int, *, now_us: int, monotonic: float) -> bool:
        """Note the expiry of *name* at the database's time *now_us*; return whether its renewals have ended."""
        seen_us, until = self._until.get(name, (None, 0.0))
        if seen_us != expires_us:
            until = monotonic + min((expires_us - now_us) / 1e6, self._longest) + self._slack
            self._until[name] = expires_us, until
        return monotonic > until

    def keep(self, names: frozenset[str]) -> None:
        """Forget all other names."""
        self._until = {name: seen for name, seen in self._until.items() if name in names}

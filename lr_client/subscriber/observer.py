"""The observer of a subscription: learns of each batch, for example to count entries for metrics."""

from collections.abc import Sequence


class DeliveryObserver:
    """Does nothing; a subclass counts. Several threads call the methods, which must be quick and must not raise.

    Example:
        >>> class Counter(DeliveryObserver):
        ...     def applied(self, source_id, entries, seconds):
        ...         ENTRIES.labels(source_id).inc(entries)
        ...
        >>> subscribe(engine, apply, observer=Counter())
    """

    def applied(self, source_id: str, entries: int, seconds: float) -> None:
        """Learn that a transaction with *entries* has committed; *seconds* is the time of the whole transaction."""

    def delays(self, source_id: str, seconds: Sequence[float]) -> None:
        """Learn the *seconds* from the commit at the source to the commit here, one for each source transaction.

        Called after `applied` for log entries. The clocks of both sites count, so their difference is part of it.
        """

    def failed(self, source_id: str, error: Exception) -> None:
        """Learn of an error, as `RoutingQueueListener.on_error` does."""

"""The ring of a request among several rings, by the partition keys of its messages. Pure."""

from collections.abc import Iterable, Sequence

from lr_client.producer.encoding import AnyMessage
from queues.entry_keys import checked_key
from queues.errors import UsageError


class RingChoice:
    """Chooses among the rings of the site ids *sites*."""

    def __init__(self, sites: Iterable[str]) -> None:
        """Raise `ConfigurationError` unless *sites* are numbered ids of one name, and so many rings can share keys."""
        # Loads the library of the hash, which a producer of one ring does not need.
        from discovery.rings import in_order, ring_of

        self._sites = in_order(sites)
        self._ring_of = ring_of

    def site_of(self, key: str | None) -> str:
        """Return the ring that takes the partition key *key*; raise `UsageError` for no key, or a malformed one."""
        checked = checked_key(key, "partition_key")
        if checked is None:
            raise UsageError("the ring is chosen by the partition key: give each message one, as a ProducerMessage")
        return self._sites[self._ring_of(checked, len(self._sites))]

    def site_for(self, messages: Sequence[AnyMessage]) -> str:
        """Return the ring that takes all of *messages*.

        Raises `UsageError` for messages without a key, for those of several rings, and for no messages.
        """
        if not messages:
            raise UsageError("a request needs at least one message")
        sites = {self.site_of(getattr(message, "partition_key", None)) for message in messages}
        if len(sites) > 1:
            raise UsageError(
                f"the keys of the request belong to the rings {', '.join(sorted(sites))}, "
                "but a request is one transaction of one ring: send the messages of each ring by themselves"
            )
        return sites.pop()

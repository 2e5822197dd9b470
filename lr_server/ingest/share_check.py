"""The keys that other rings take. Pure."""

from collections.abc import Iterable, Sequence

from discovery.rings import Share, ring_of
from queues.names import MAX_NAME_LENGTH
from queues.send_log.producers import Production


def foreign_key(keys: Iterable[str | None], share: Share) -> str:
    """Return one sentence about the first of the partition keys *keys* that another ring takes; empty if there is none.

    Entries without a partition key belong to any ring.
    """
    key = next((key for key in keys if key is not None and not share.has(key)), None)
    if key is None:
        return ""
    owner = ring_of(key, share.rings)
    return (
        f"key {key[: MAX_NAME_LENGTH + 1]!r} belongs to ring {owner}, and this is ring {share.number} of {share.rings}"
        ": name all rings to the producer"
    )


def first_foreign(requests: Sequence[Production], share: Share) -> tuple[int, str]:
    """Return the place of the first of *requests* with a foreign key, and the sentence of `foreign_key` about it.

    Without such a request, the place is the number of requests.
    """
    if share.rings > 1:
        for place, request in enumerate(requests):
            if problem := foreign_key((entry.partition_key for entry in request.entries), share):
                return place, problem
    return len(requests), ""

"""The keys that other rings take. Pure."""

from collections.abc import Iterable

from discovery.rings import Share, ring_of
from queues.names import MAX_NAME_LENGTH


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


def first_foreign(requests: Iterable[Iterable[str | None]], share: Share) -> tuple[int, str] | None:
    """Return the place of the first request with a foreign key, and the sentence of `foreign_key`; None if none has.

    *requests* are the partition keys of each.
    """
    if share.rings == 1:
        return None
    problems = ((place, foreign_key(keys, share)) for place, keys in enumerate(requests))
    return next((found for found in problems if found[1]), None)

"""The durable state of one member of a token. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.history import EMPTY, TickHistory


class StoreId(NamedTuple):
    """The store of one member: a random number, and the count of stores that the member has had."""

    number: int
    uid: int


#: The number of each founder's store.
FOUNDED: Final = 1
#: In place of a store that a newcomer does not know yet.
UNKNOWN_STORE: Final = StoreId(0, 0)


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """The rows of one member.

    Invariants: `promised` never falls, and no tick of `history` has a generation above `promised`.

    Attributes:
        rank: The member's rank in its token.
        stores: The stores that count, by rank; messages of other stores are refused.
        promised: The member stores no tick of a lower generation.
        history: The ticks of the log.
    """

    rank: int
    stores: tuple[StoreId, ...]
    promised: int = 0
    history: TickHistory = EMPTY

    @property
    def store(self) -> StoreId:
        """The member's own store."""
        return self.stores[self.rank]

    @property
    def others(self) -> tuple[int, ...]:
        """The ranks of the other two members."""
        return tuple(rank for rank in RANKS if rank != self.rank)


def founders(uids: Sequence[int]) -> tuple[MemberRecord, ...]:
    """Return the records of a new token, whose members have empty stores with these three random numbers."""
    stores = tuple(StoreId(FOUNDED, uid) for uid in uids)
    return tuple(MemberRecord(rank, stores) for rank in RANKS)


def with_store(stores: tuple[StoreId, ...], rank: int, store: StoreId) -> tuple[StoreId, ...]:
    """Return *stores* with *store* for *rank*."""
    return (*stores[:rank], store, *stores[rank + 1 :])

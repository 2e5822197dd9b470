"""The generations of a token, and its members by rank. Pure.

A generation names its leader: even numbers belong to rank 0, odd numbers to rank 1. So no two members ever compete for
one number, and rank 2 has no number at all. Generation 0 is the time before the first leader.
"""

from typing import Final

from discovery.ring import Ring

#: The members of a token: the leader by default, the member that takes over, and the second follower.
RANKS: Final = (0, 1, 2)
#: The members of a token that may lead.
LEADING_RANKS: Final = (0, 1)


def leader_of(generation: int) -> int:
    """Return the rank that leads *generation*, which is 1 or more."""
    return generation % len(LEADING_RANKS)


def next_generation(rank: int, above: int) -> int:
    """Return the lowest generation of *rank*, 0 or 1, that is higher than *above*."""
    return above + 1 if leader_of(above + 1) == rank else above + 2


def members_of(ring: Ring, token: int) -> tuple[int, int, int]:
    """Return the places of *ring* that keep the log of *token*, by rank."""
    return (ring.place(token), *ring.followers(token))

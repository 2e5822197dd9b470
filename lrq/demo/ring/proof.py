"""Compare the numbers at the sink with the acknowledged ones. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NumbersProof:
    """The comparison of the sink with the producer's acknowledgements; `unexpected` ones were not acknowledged."""

    acknowledged: int
    heard: int
    missing: int
    doubled: int
    unexpected: int
    in_order: bool

    @property
    def ok(self) -> bool:
        """Whether each acknowledged entry is at the sink exactly once, in order, and no other."""
        return self.in_order and not (self.missing or self.doubled or self.unexpected)

    def in_words(self) -> str:
        """Return the differences in one line."""
        order = "in order" if self.in_order else "in another order"
        return (
            f"entries missing: {self.missing:,}, doubled: {self.doubled:,}, unexpected: {self.unexpected:,}; "
            f"the others came {order}"
        )


def prove(acknowledged: Sequence[int], heard: Sequence[int]) -> NumbersProof:
    """Compare the numbers that the sink *heard* with the *acknowledged* ones."""
    owed, held = set(acknowledged), Counter(heard)
    once = list(dict.fromkeys(number for number in heard if number in owed))
    return NumbersProof(
        acknowledged=len(acknowledged),
        heard=len(heard),
        missing=len(owed - held.keys()),
        doubled=held.total() - len(held),
        unexpected=len(held.keys() - owed),
        in_order=once == [number for number in acknowledged if number in held],
    )

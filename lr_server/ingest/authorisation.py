"""Which producer may use which clients and destinations, from the table `[producers]`. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from queues.names import MAX_NAME_LENGTH

#: Ends a name in `[producers]` that stands for all producers whose names begin like that.
ANY: Final = "*"


class Rule(Protocol):
    """The clients and the destinations that a producer may use; empty for all of the site."""

    @property
    def clients(self) -> Sequence[str]:
        """The allowed clients."""
        ...

    @property
    def destinations(self) -> Sequence[str]:
        """The allowed destinations."""
        ...


class Use(NamedTuple):
    """The names in one request."""

    producer: str
    client: str
    destinations: frozenset[str]


def rule_for(producer: str, rules: Mapping[str, Rule]) -> Rule | None:
    """Return the rule of *producer*: the one of its exact name, or else of the longest pattern that fits."""
    if producer in rules and not producer.endswith(ANY):
        return rules[producer]
    fitting = (name for name in rules if name.endswith(ANY) and producer.startswith(name.removesuffix(ANY)))
    best = max(fitting, key=len, default=None)
    return None if best is None else rules[best]


def denial(use: Use, rules: Mapping[str, Rule], certified: Collection[str] | None) -> str:
    """Return one sentence about the first forbidden name in *use*; empty if the request is allowed.

    *certified* are the names in the caller's certificate; None without TLS, where the name in the request is believed.
    """
    producer = _short(use.producer)
    if certified is not None and use.producer not in certified:
        named = ", ".join(repr(_short(name)) for name in sorted(certified)) or "no producer"
        return f"the certificate shown names {named}, not producer {producer!r}: use one that does"
    rule = rule_for(use.producer, rules)
    if rule is None:
        return f"no rule in `producers` fits {producer!r}: add that name there"
    if rule.clients and use.client not in rule.clients:
        allowed = _listed(rule.clients)
        return f"producer {producer!r} may not use client {_short(use.client)!r}: `producers` allows {allowed}"
    wrong = min(use.destinations.difference(rule.destinations), default=None) if rule.destinations else None
    if wrong is None:
        return ""
    return f"producer {producer!r} may not send to {_short(wrong)!r}: `producers` allows {_listed(rule.destinations)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _short(name: str) -> str:
    # The caller chooses the text, so its length is limited here.
    return name[: MAX_NAME_LENGTH + 1]

"""The time in which the ranges of a disturbed server get other leaders. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.faults.site_ledger import Led

NEVER = float("inf")


class Disturbance(NamedTuple):
    """A server of the source stood still between two times in seconds since 1970; a killed one never goes on.

    `pid` names its process; `others` are the processes of the source's other servers that had begun by then.
    """

    pid: int
    began: float
    ended: float
    others: frozenset[int]


def process_of(server: str) -> int:
    """Return the process id in the name of a server (`discovery.processes.owner_name`); 0 if there is no server."""
    return int(server.rsplit(":", 4)[1]) if server else 0


def takeovers(disturbed: Sequence[Disturbance], led: Sequence[Led], lease: float, over: float) -> list[float]:
    """Return the seconds until each range of a disturbed server had its next leader; *led* includes releases.

    A disturbance counts if another server was undisturbed until the takeover, for one lease at most. A server that went
    on before its lease ended need not be replaced. The run ended at *over*: ranges still without a leader give `NEVER`.
    """
    histories: dict[int, list[Led]] = defaultdict(list)
    for one in led:
        histories[one.range].append(one)
    found = []
    for each in disturbed:
        for history in histories.values():
            before = [one for one in history if one.at <= each.began]
            if not before or process_of(before[-1].server) != each.pid:
                continue
            replaced = next((one.at for one in history if one.at > each.began and one.server), NEVER)
            waits = min(each.ended, over) - each.began
            if (replaced > each.ended or replaced == NEVER) and waits < lease:
                continue
            if has_survivor(each, disturbed, min(replaced, each.began + lease)):
                found.append(replaced - each.began)
    return found


def has_survivor(each: Disturbance, disturbed: Iterable[Disturbance], until: float) -> bool:
    """Return whether another server was undisturbed from the beginning of *each* until a time."""
    met = {one.pid for one in disturbed if one.began < until and one.ended > each.began}
    return bool(each.others - met)

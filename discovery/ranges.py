"""Ranges of sessions, and the servers that lead them: the share of each server, and the plan of one turn. Pure.

A range is an equal part of the ring of tokens. So doubling the number of ranges halves each range.

Every server computes the same share from the same read, so the servers need no election:

* Loads differ by one range at most. With a remainder, the servers that lead most take one range more.
* A living server keeps its ranges up to its load, which is the fewest possible moves.
* A free range goes to the server with room that prefers the range most. The preference is a token of both names.

The rule keeps state, namely the present leaders, because a stateless one moves more. Preference alone is not even; with
bounded loads, ranges also move between survivors; followers on a ring need 3 * 2**n servers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from discovery.ring import Ring, token
from queues.leadership import Lease, RangeRow, ServersView, range_lease


def range_of(client: str, destination: str, ranges: int) -> int:
    """Return the number of the range, from 0 to before *ranges*, of the session of *client* with *destination*."""
    return Ring(ranges).owner(f"{client}/{destination}")


def share(leaders: Sequence[str | None], living: Iterable[str]) -> list[str | None]:
    """Return the server that should lead each range: rank 0.

    *leaders* has the present leader of each range; None, and a server that is not in *living*, stand for none. Without
    a living server, no range has a leader.
    """
    names = sorted(set(living))
    led = {name: [number for number, leader in enumerate(leaders) if leader == name] for name in names}
    rooms = _loads(led, len(leaders))
    found: list[str | None] = [None] * len(leaders)
    for name in names:
        for number in _kept(name, led[name], rooms[name]):
            found[number] = name
            rooms[name] -= 1
    for number, leader in enumerate(found):
        if leader is None and names:
            chosen = max((name for name in names if rooms[name]), key=lambda name: (_preference(name, number), name))
            found[number] = chosen
            rooms[chosen] -= 1
    return found


def ranks(leaders: Sequence[str | None], living: Iterable[str], number: int) -> list[str]:
    """Return the servers in the order in which they would lead range *number*.

    Rank 0 leads by now, or will soon; each next rank leads once all servers of lower ranks have expired.
    """
    left, order = set(living), list[str]()
    while left:
        leader = share(leaders, left)[number]
        assert leader is not None, "a living server leads each range"
        order.append(leader)
        left.remove(leader)
    return order


class RangePlan(NamedTuple):
    """One turn of a server.

    `kept`: the ranges that are still led here, and stay. `releases`: ranges to free, after their sessions have ended.
    `claims`: ranges to lead now. `awaited`: whether a living server must release a range before a later claim.
    """

    kept: Mapping[int, Lease]
    releases: tuple[Lease, ...] = ()
    claims: tuple[RangeRow, ...] = ()
    awaited: bool = False


def plan(view: ServersView, me: str, held: Mapping[int, Lease], *, patient: bool = False) -> RangePlan:
    """Return the turn of server *me*, which leads *held* to its knowledge.

    A range of a living server is claimed only after its release. A server that is not living in *view* claims nothing,
    and a sequencer of an older lrq leaves it no range. *patient*: claim released ranges only, no range of an expired
    server, which may only seem expired.
    """
    mine = {row.number: range_lease(row) for row in view.ranges if row.server == me}
    kept = {number: lease for number, lease in held.items() if mine.get(number) == lease}
    if view.has_older_sequencer:
        return RangePlan({}, tuple(mine.values()))
    living = view.living
    if me not in living:
        return RangePlan(kept)
    targets = share([row.server if row.server in living else None for row in view.ranges], living)
    wanted = [row for row, target in zip(view.ranges, targets, strict=True) if target == me]
    numbers = {row.number for row in wanted}
    kept = {number: lease for number, lease in kept.items() if number in numbers}
    free = {"", me} if patient else {me, *({row.server for row in wanted} - set(living))}
    missing = [row for row in wanted if row.number not in kept]
    return RangePlan(
        kept,
        tuple(lease for number, lease in mine.items() if number not in numbers),
        tuple(row for row in missing if row.server in free),
        awaited=any(row.server not in free for row in missing),
    )


def _loads(led: Mapping[str, Collection[int]], ranges: int) -> dict[str, int]:
    if not led:
        return {}
    least, more = divmod(ranges, len(led))
    # Servers above the larger load count as equal, so that the order stays while some of them release.
    order = sorted(led, key=lambda name: (-min(len(led[name]), least + 1), -_preference(name, ranges), name))
    return {name: least + (place < more) for place, name in enumerate(order)}


def _kept(name: str, numbers: Sequence[int], room: int) -> Sequence[int]:
    if len(numbers) <= room:
        return numbers
    return sorted(numbers, key=lambda number: (-_preference(name, number), number))[:room]


def _preference(name: str, number: int) -> int:
    return token(f"{name}/{number}")

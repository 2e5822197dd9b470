"""Decide whether a source can send entries again that a sink has applied. Pure.

An operator at the sink orders the replay. Nothing goes back unless the session surely resumes afterwards: a replay
never ends in a snapshot. See docs/design.md, "Replays".
"""

from dataclasses import dataclass, replace

from lr_server.protocol.histories import SinkHistory, SourceHistory, TickKey
from lr_server.protocol.negotiation import InitialSync, Resume, decide
from queues.positions import Position


@dataclass(frozen=True, slots=True)
class OrderedReplay:
    """The order of a sink: entries from number `from_seq` on, or with 0 those committed since `since_us`.

    `branch` is that of the number, or empty for any.
    """

    order_id: str
    from_seq: int = 0
    branch: str = ""
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """The tick after which the ordered entries begin, and the branch of the first of them.

    `regrouped_seq` is the end of the newest tick at the last change of the groups of replicas. `group` is the group of
    the sink, if there is one.
    """

    after: TickKey
    branch: str
    regrouped_seq: int = 0
    group: str = ""


def refuse_replay(
    source: SourceHistory,
    sink: SinkHistory,
    order: OrderedReplay,
    target: ReplayTarget | None,
    *,
    initial_sync: InitialSync,
) -> str:
    """Return why entries after *target* are not sent again, or an empty text; None: there are none.

    The sink may go back if, and only if, the session would then resume from there.
    """
    if target is not None and target.group:
        return f"the site is a member of the replicas {target.group}, whose applied entries count for a promotion"
    now = decide(source, sink, initial_sync=initial_sync)
    if not isinstance(now, Resume):
        return f"the log does not go on now, because {now.reason}"
    if target is None:
        return "the source has taken no entries since then: there is nothing to send again"
    after = target.after
    if order.branch not in ("", target.branch):
        return f"{order.branch}@{order.from_seq} is not in the source's history, which has {target.branch} there"
    if after.seq >= sink.received.seq:
        return f"the sink has received entries up to {sink.received.seq:,} only: there is nothing to send again"
    if after.seq < source.lost_seq:
        return (
            f"entries up to {source.lost_seq:,} are trimmed at the source: order those from {source.lost_seq + 1:,}, "
            "or request a snapshot (the source's acknowledged_retention_seconds keeps entries longer)"
        )
    if after.seq < target.regrouped_seq:
        return (
            f"the groups of replicas have changed at {target.regrouped_seq:,}, so earlier entries have other numbers: "
            f"order those from {target.regrouped_seq + 1:,}, or request a snapshot"
        )
    back = decide(*_gone_back(source, sink, after), initial_sync=initial_sync)
    return "" if isinstance(back, Resume) else f"the log could not go on from there, because {back.reason}"


def _gone_back(source: SourceHistory, sink: SinkHistory, after: TickKey) -> tuple[SourceHistory, SinkHistory]:
    """Return both histories as a negotiation would find them, once the sink has gone back."""
    kept = tuple(header for header in sink.headers if header.seq < after.seq)
    gone = replace(
        sink,
        received=Position(after.branch, after.seq, sink.received.cut),
        boundary_seq=after.seq,
        applied_seq=min(sink.applied_seq, after.seq),
        headers=(after, *kept) if after.seq else (),
    )
    return replace(source, known=source.known | {after}), gone

"""The next step of a queue with little new work, out of one brief look and the blocks in memory."""

from typing import NamedTuple

from lr_client.subscriber.steps import DeliveryStep, Kind, next_kind, step_to
from queues.receive.batches import BatchLimits, next_entries
from queues.receive.brief_look import BriefLook
from queues.receive.kept_blocks import History, KeptBlocks


class BriefStep(NamedTuple):
    """The next step, None when nothing is left; or, if not `is_certain`, nothing is known of that step."""

    step: DeliveryStep | None
    is_certain: bool = True


def brief_step(look: BriefLook, queue_id: int, limits: BatchLimits, kept: KeptBlocks, *, one: bool) -> BriefStep:
    """Return the result of `next_step`, if *look* and *kept* have all of it."""
    if look.stands is None:
        return BriefStep(None, is_certain=False)
    seen, received, _, _, version = look.stands
    kind = next_kind(look.stands)
    if kind is None:
        kept.forget()
        return BriefStep(None)
    if kind is not Kind.LOG_ENTRIES:
        return BriefStep(None, is_certain=False)
    kept.open(History(queue_id, received.sync_id, received.branch, version), seen.seq, received.boundary_seq)
    kept.add(look.known, look.blocks, look.last)
    if not kept.has_all:
        return BriefStep(None, is_certain=False)
    found = next_entries(None, kept, seen.seq, received.boundary_seq, limits, one=one)
    return BriefStep(step_to(found, seen, received.branch, version))

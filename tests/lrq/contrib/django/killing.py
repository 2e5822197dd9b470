"""The listener of the example, in a process that ends at `SHOP_KILL`, as by a power failure: `lrq_work killing:apply`.

`changed`: the models of an entry are changed; `removed`: so is the queue, right before COMMIT; `committed`: after it.
"""

import os
import signal

from django.db import transaction
from shop.listeners import apply as apply_orders
from sqlalchemy import Engine, event

import lrq

MOMENT = os.environ.get("SHOP_KILL", "")
applying = []


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@lrq.listener("orders")
def apply(session, source_id, entries):
    apply_orders(session, source_id, entries)
    if MOMENT == "changed":
        die()
    if MOMENT == "removed":
        applying.append(source_id)
    if MOMENT == "committed":
        transaction.on_commit(die)


@lrq.listener("orders", on_failure="park", max_tries=1)
def park(session, source_id, entries):
    apply_orders(session, source_id, entries)


async def later(session, source_id, entries): ...


@event.listens_for(Engine, "commit")
def end(_connection):
    if applying:
        die()

"""The listeners of an application that `lrq work` runs; entries steer them.

The payload `hold` stays in its call, after making the file `inside`, until the file `go` is there. The payload `refuse`
is refused.
"""

from pathlib import Path

from sqlalchemy import insert

import lrq
from tests.lr_client.subscriber.applying import Apply, applied
from tests.waiting import eventually

QUICK = {"poll_interval": 0.05, "backoff": 0.01, "max_backoff": 0.01, "max_tries": 2, "lease_ttl": 1.0}


def _apply(session, source_id, entries):
    for entry in entries:
        session.execute(insert(applied).values(source=source_id, what="log", payload=entry.opaque_payload))
        if entry.opaque_payload == b"hold":
            Path("inside").touch()
            eventually(Path("go").exists, timeout=60)
        elif entry.opaque_payload == b"refuse":
            raise ValueError("no such rule")


apply = lrq.listener("policy", max_batch_entries=3, **QUICK)(_apply)
park = lrq.listener("policy", on_failure="park", **QUICK)(_apply)
sharded = lrq.listener("policy", shards=2, **QUICK)(_apply)
closing = lrq.listener("policy", **QUICK)(_apply)
audit = lrq.listener("audit", **QUICK)(_apply)
instance = Apply()


@closing.on_stream_end
def end(session, source_id):
    session.execute(insert(applied).values(source=source_id, what="end", payload=b""))


def factory():
    return lrq.listener("policy", **QUICK)(_apply)


def plain(session, source_id, entries): ...


async def asynchronous(session, source_id, entries): ...


async def asynchronous_factory(): ...


def failing_factory():
    raise KeyError("DATABASE")


class Nested:
    apply = apply

"""A subscriber that refuses every fifth entry: `python -m tests.lr_client.subscriber.blocking_process <url>`.

The process prints `subscribed`, and ends with its input.
"""

import sys

import queues
from lr_client.subscriber.subscription import subscribe
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Apply


def refuse(entry: RoutingTableEntryMsg) -> None:
    if int(entry.opaque_payload[1:]) % 5 == 0:
        raise ValueError("every fifth entry is poison")


def main(url: str) -> None:
    engine = queues.create_engine(url)
    with subscribe(engine, Apply(refuse), poll_interval=0.02, backoff=0.001, max_backoff=0.005, max_batch_entries=3):
        print("subscribed", flush=True)
        for _ in sys.stdin:
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A subscriber as a process: `python -m tests.lr_client.subscriber.consumer_process <url> [hold | keep]`.

The process prints one line for each fact: `subscribed`, `inside` and `error <class>: <words>`. With `hold` the listener
stays in its call after `inside` until a line comes in. With `keep` the listener is `keeping.Keep`. The process ends
with its input.
"""

import sys
import threading

import queues
from lr_client.subscriber.subscription import subscribe
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from queues.words import describe
from tests.lr_client.subscriber.applying import Apply
from tests.lr_client.subscriber.keeping import Keep


def tell(*words: str) -> None:
    print(*words, flush=True)


class Consumer(Apply):
    """Prints errors, and can be held in the middle of a call."""

    def on_error(self, source_id, error):
        tell("error", describe(error))


def main(url: str, mode: str = "") -> None:
    engine = queues.create_engine(url)
    go_on = threading.Event()

    def linger(_: RoutingTableEntryMsg) -> None:
        tell("inside")
        go_on.wait()

    listener = Keep() if mode == "keep" else Consumer(linger if mode == "hold" else None)
    with subscribe(engine, listener, poll_interval=0.05, max_batch_entries=3, lease_ttl=1.0):
        tell("subscribed")
        for _ in sys.stdin:
            go_on.set()


if __name__ == "__main__":
    main(*sys.argv[1:])

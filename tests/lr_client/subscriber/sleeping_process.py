"""A subscriber that hardly ever polls, as a process: `python -m tests.lr_client.subscriber.sleeping_process <url>`.

The process prints `subscribed`, and ends with its input.
"""

import sys

from sqlalchemy import Engine

import queues
from lr_client.subscriber.followed_queue import Options
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.subscription import Subscription
from queues.clock import SYSTEM_CLOCK
from queues.names import client_name
from queues.receive.batches import BatchLimits
from tests.lr_client.subscriber.applying import Apply

#: Longer than any test waits, in seconds: an entry that is applied was not found by polling.
NEVER = 600.0


def sleeping(
    engine: Engine, listener: RoutingQueueListener, pause: float = NEVER, notified: float = 0.0
) -> Subscription:
    """Return a running subscription that polls an idle queue every *pause* seconds, or as seldom as *notified*."""
    tries = {"max_tries": 1, "backoff": 0.01, "max_backoff": 0.01}
    options = Options(BatchLimits(100, 1 << 20), "block", idle=pause, quick=pause, notified=notified, **tries)
    client = client_name(listener.client_name)
    made = Subscription(engine, listener, client, options, poll_interval=0.05, ttl=1.0, clock=SYSTEM_CLOCK)
    made.start()
    return made


def main(url: str) -> None:
    engine = queues.create_engine(url)
    subscription = sleeping(engine, Apply())
    print("subscribed", flush=True)
    sys.stdin.read()
    subscription.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

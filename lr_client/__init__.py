"""What applications import: the sender, snapshot providers and subscribers."""

import lrq  # noqa: F401 - tells in one sentence when other packages have the names of ours
from lr_client.listener import RoutingQueueListener
from lr_client.sender import LRMessageWithDestinations, RoutingQueueSenderClient
from lr_client.snapshot_context import SnapshotContext, SnapshotProvider
from lr_client.subscriber import Subscription, subscribe
from lr_client.waiting import wait_applied
from queues.positions import PositionToken
from queues.wire.entry_pb2 import RoutingTableEntryMsg

__all__ = [
    "LRMessageWithDestinations",
    "PositionToken",
    "RoutingQueueListener",
    "RoutingQueueSenderClient",
    "RoutingTableEntryMsg",
    "SnapshotContext",
    "SnapshotProvider",
    "Subscription",
    "subscribe",
    "wait_applied",
]

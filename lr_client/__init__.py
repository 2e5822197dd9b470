"""The names that applications import: the sender, snapshot providers and subscribers."""

import lrq_packages  # noqa: F401 - raises a clear error when another package has the name of one of ours
from lr_client.sender import LRMessageWithDestinations, RoutingQueueSenderClient
from lr_client.snapshot.context import SnapshotContext, SnapshotProvider
from lr_client.subscriber.function_listener import FunctionListener, listener
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.observer import DeliveryObserver
from lr_client.subscriber.subscription import Subscription, subscribe
from lr_client.subscriber.wait_applied import wait_applied
from queues.positions import PositionToken
from queues.wire.entry_pb2 import RoutingTableEntryMsg

__all__ = [
    "DeliveryObserver",
    "FunctionListener",
    "LRMessageWithDestinations",
    "PositionToken",
    "RoutingQueueListener",
    "RoutingQueueSenderClient",
    "RoutingTableEntryMsg",
    "SnapshotContext",
    "SnapshotProvider",
    "Subscription",
    "listener",
    "subscribe",
    "wait_applied",
]

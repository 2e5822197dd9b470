"""The names that applications import: the sender, snapshot providers and subscribers.

`import lr_client` loads none of them: each name is loaded at its first use. Producers are in `lr_client.producer`.
"""

from typing import TYPE_CHECKING, Final

import lrq_packages

if TYPE_CHECKING:
    from discovery.receive_status import FailureStatus, ReceiveQueueStatus
    from discovery.replay_status import ReplayStatus
    from discovery.resend_status import ResendStatus
    from discovery.session_status import LinkStatus, ReplicasStatus, SessionStatus
    from discovery.site_status import SiteStatus
    from discovery.snapshot_status import SnapshotStatus
    from discovery.status_changes import StatusChange
    from lr_client.replays import ReplayOrder, cancel_replay, replay_orders, request_replay, wait_replay
    from lr_client.replicas import active_member, require_continued
    from lr_client.resends import ResendOrder, cancel_resend, continue_resend, resend_entries, resend_orders
    from lr_client.sender import LRMessageWithDestinations, RoutingQueueSenderClient
    from lr_client.site_status import status, watch_status
    from lr_client.snapshot.context import SnapshotContext, SnapshotProvider
    from lr_client.snapshot.followed_tables import FollowedTables
    from lr_client.snapshot.sql_provider import SqlSnapshotProvider
    from lr_client.snapshot.sql_query import SqlQuery
    from lr_client.subscriber.column_batch import ColumnBatch
    from lr_client.subscriber.function_listener import FunctionListener, listener
    from lr_client.subscriber.listener import RoutingQueueListener
    from lr_client.subscriber.observer import DeliveryObserver
    from lr_client.subscriber.subscription import Subscription, subscribe
    from lr_client.subscriber.wait_applied import wait_applied
    from lr_client.tables.copied_tables import CopiedTables
    from lr_client.tables.following import follow_table, unfollow_table
    from lr_client.token_position import position_of
    from queues.positions import Position, PositionToken
    from queues.replica_groups import ActiveMember
    from queues.wire.entry_pb2 import RoutingTableEntryMsg

_HOMES: Final = {
    "ActiveMember": "queues.replica_groups",
    "ColumnBatch": "lr_client.subscriber.column_batch",
    "CopiedTables": "lr_client.tables.copied_tables",
    "DeliveryObserver": "lr_client.subscriber.observer",
    "FailureStatus": "discovery.receive_status",
    "FollowedTables": "lr_client.snapshot.followed_tables",
    "FunctionListener": "lr_client.subscriber.function_listener",
    "LRMessageWithDestinations": "lr_client.sender",
    "LinkStatus": "discovery.session_status",
    "Position": "queues.positions",
    "PositionToken": "queues.positions",
    "ReceiveQueueStatus": "discovery.receive_status",
    "ReplayOrder": "queues.receive.replays",
    "ReplayStatus": "discovery.replay_status",
    "ReplicasStatus": "discovery.session_status",
    "ResendOrder": "queues.send_log.resends",
    "ResendStatus": "discovery.resend_status",
    "RoutingQueueListener": "lr_client.subscriber.listener",
    "RoutingQueueSenderClient": "lr_client.sender",
    "RoutingTableEntryMsg": "queues.wire.entry_pb2",
    "SessionStatus": "discovery.session_status",
    "SiteStatus": "discovery.site_status",
    "SnapshotContext": "lr_client.snapshot.context",
    "SnapshotProvider": "lr_client.snapshot.context",
    "SnapshotStatus": "discovery.snapshot_status",
    "SqlQuery": "lr_client.snapshot.sql_query",
    "SqlSnapshotProvider": "lr_client.snapshot.sql_provider",
    "StatusChange": "discovery.status_changes",
    "Subscription": "lr_client.subscriber.subscription",
    "active_member": "lr_client.replicas",
    "cancel_replay": "lr_client.replays",
    "cancel_resend": "lr_client.resends",
    "continue_resend": "lr_client.resends",
    "follow_table": "lr_client.tables.following",
    "listener": "lr_client.subscriber.function_listener",
    "position_of": "lr_client.token_position",
    "replay_orders": "lr_client.replays",
    "request_replay": "lr_client.replays",
    "require_continued": "lr_client.replicas",
    "resend_entries": "lr_client.resends",
    "resend_orders": "lr_client.resends",
    "status": "lr_client.site_status",
    "subscribe": "lr_client.subscriber.subscription",
    "unfollow_table": "lr_client.tables.following",
    "wait_applied": "lr_client.subscriber.wait_applied",
    "wait_replay": "lr_client.replays",
    "watch_status": "lr_client.site_status",
}

__all__ = [
    "ActiveMember",
    "ColumnBatch",
    "CopiedTables",
    "DeliveryObserver",
    "FailureStatus",
    "FollowedTables",
    "FunctionListener",
    "LRMessageWithDestinations",
    "LinkStatus",
    "Position",
    "PositionToken",
    "ReceiveQueueStatus",
    "ReplayOrder",
    "ReplayStatus",
    "ReplicasStatus",
    "ResendOrder",
    "ResendStatus",
    "RoutingQueueListener",
    "RoutingQueueSenderClient",
    "RoutingTableEntryMsg",
    "SessionStatus",
    "SiteStatus",
    "SnapshotContext",
    "SnapshotProvider",
    "SnapshotStatus",
    "SqlQuery",
    "SqlSnapshotProvider",
    "StatusChange",
    "Subscription",
    "active_member",
    "cancel_replay",
    "cancel_resend",
    "continue_resend",
    "follow_table",
    "listener",
    "position_of",
    "replay_orders",
    "request_replay",
    "require_continued",
    "resend_entries",
    "resend_orders",
    "status",
    "subscribe",
    "unfollow_table",
    "wait_applied",
    "wait_replay",
    "watch_status",
]

if not TYPE_CHECKING:  # otherwise a type checker believes every misspelt name
    __getattr__ = lrq_packages.lazy(__name__, _HOMES)

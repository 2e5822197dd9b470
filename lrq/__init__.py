"""The public names that applications use, in one package.

`import lrq` loads none of them: each name is loaded at its first use. Spark's names come from `lr_client.spark`.

Example:
    >>> import lrq
    >>> client = lrq.RoutingQueueSenderClient("policy")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

import lrq_packages  # noqa: F401 - checks that no other package has the name of one of ours

if TYPE_CHECKING:
    from lr_client import (
        CopiedTables,
        FollowedTables,
        RoutingQueueListener,
        RoutingQueueSenderClient,
        SqlSnapshotProvider,
        follow_table,
        listener,
        status,
        subscribe,
        unfollow_table,
        wait_applied,
        watch_status,
    )
    from lr_client.producer import AsyncProducer, AsyncRingsProducer, Producer, RingsProducer
    from lr_server import LogReplicationServer, Settings
    from queues import create_engine, errors, initialize
    from queues.errors import *  # noqa: F403

__version__: Final = "0.2.0.dev0"

_HOMES: Final = {
    "AsyncProducer": "lr_client.producer",
    "AsyncRingsProducer": "lr_client.producer",
    "CopiedTables": "lr_client",
    "FollowedTables": "lr_client",
    "LogReplicationServer": "lr_server",
    "Producer": "lr_client.producer",
    "RingsProducer": "lr_client.producer",
    "RoutingQueueListener": "lr_client",
    "RoutingQueueSenderClient": "lr_client",
    "Settings": "lr_server",
    "SqlSnapshotProvider": "lr_client",
    "create_engine": "queues",
    "initialize": "queues",
    "follow_table": "lr_client",
    "listener": "lr_client",
    "status": "lr_client",
    "subscribe": "lr_client",
    "unfollow_table": "lr_client",
    "wait_applied": "lr_client",
    "watch_status": "lr_client",
}

__all__ = [  # `lrq.<name>` also finds each error class of `errors`
    "AsyncProducer",
    "AsyncRingsProducer",
    "CopiedTables",
    "FollowedTables",
    "LogReplicationServer",
    "Producer",
    "RingsProducer",
    "RoutingQueueListener",
    "RoutingQueueSenderClient",
    "Settings",
    "SqlSnapshotProvider",
    "__version__",
    "create_engine",
    "errors",
    "follow_table",
    "initialize",
    "listener",
    "status",
    "subscribe",
    "unfollow_table",
    "wait_applied",
    "watch_status",
]


if not TYPE_CHECKING:  # otherwise a type checker believes every misspelt name

    def __getattr__(name: str) -> object:
        """Return the object for a name of `__all__`, or an error class of `queues.errors`."""
        if name in _HOMES:
            found: object = getattr(import_module(_HOMES[name]), name)
        elif name == "errors" or name.endswith("Error"):
            errors = import_module("queues.errors")
            found = errors if name == "errors" else getattr(errors, name, None)
        else:
            found = None
        if found is None:
            raise AttributeError(f"module 'lrq' has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

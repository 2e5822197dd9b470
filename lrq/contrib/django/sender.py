"""Transmit in Django's transactions."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import connections

from lr_client.sender import RoutingQueueSenderClient
from lrq.contrib.django.conf import app_settings
from queues.errors import NotInTransactionError
from queues.positions import PositionToken


def transmit(
    client: str,
    payload: bytes,
    destinations: Iterable[str],
    *,
    using: str | None = None,
    item_key: str | None = None,
    partition_key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> PositionToken:
    """Write one entry of *client* for all *destinations* inside the `transaction.atomic()` of the caller.

    The entry vanishes when the block, or a nested one around this call, is rolled back. *using* is an alias of
    `DATABASES`, by default the one in the setting `LRQ`. For the other arguments, and errors of them, see
    `RoutingQueueSenderClient.transmit_log_entry_message`.

    Raises `NotInTransactionError` outside a transaction, and Django's `TransactionManagementError` in a block that an
    error has broken.

    Example:
        >>> with transaction.atomic():
        ...     order.save()
        ...     transmit("orders", order.as_json().encode(), ["tokyo"])
    """
    wanted = app_settings()
    connection: Any = connections[using or wanted.database]
    if not connection.in_atomic_block and connection.get_autocommit():
        raise NotInTransactionError(
            "transmit is part of the transaction of your changes: call it inside `with transaction.atomic():`"
        )
    connection.validate_no_broken_transaction()
    sender = RoutingQueueSenderClient(client, max_payload_bytes=wanted.max_payload_bytes)
    return sender.transmit_log_entry_message(
        connection,
        payload,
        destinations,
        item_key=item_key,
        partition_key=partition_key,
        headers=headers,
    )

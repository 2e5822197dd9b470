"""Take an order at a branch: the order and its message to the head office are one transaction."""

import json

from django.db import transaction

from lrq.contrib.django import transmit
from shop.models import Order

#: The largest quantity of one order.
LIMIT = 100


def place(item, quantity):
    """Store an order and transmit it to the head office; a ValueError undoes both."""
    with transaction.atomic():
        order = Order.objects.create(item=item, quantity=quantity)
        message = {"order": order.pk, "item": item, "quantity": quantity, "placed_at": order.placed_at.isoformat()}
        transmit("orders", json.dumps(message).encode(), ["office"])
        if quantity > LIMIT:
            raise ValueError(f"an order has at most {LIMIT} pieces")
    return order

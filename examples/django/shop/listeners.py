"""Apply orders of the branches at the head office: `manage.py lrq_work shop.listeners:apply`."""

import json
from datetime import datetime

from django.db.models import F

import lrq
from shop.models import Stock, StockChange


@lrq.listener("orders")
def apply(session, source_id, entries):
    """Take the ordered pieces from the stock, in the transaction that removes the entries."""
    for entry in entries:
        message = json.loads(entry.opaque_payload)
        stock, _ = Stock.objects.get_or_create(item=message["item"])
        Stock.objects.filter(pk=stock.pk).update(quantity=F("quantity") - message["quantity"])
        StockChange.objects.create(
            branch=source_id,
            order=message["order"],
            stock=stock,
            quantity=message["quantity"],
            placed_at=datetime.fromisoformat(message["placed_at"]),
        )

"""Deliver the received entries of client `orders` to listeners: `python delivery.py <code>...`, in the example project.

Each code defines `apply` or `subject`, a listener, and may print lines with `tell`. A delivery ends once the queue is
empty. A delivery also ends after the first error of the subscription, which is printed as `error <words>`.
"""

import sys
import threading

import django

django.setup()

from django.db import connection, transaction  # noqa: E402, F401 - for the code
from django.db.models import F  # noqa: E402, F401 - for the code
from shop.models import Order, Stock, StockChange  # noqa: E402, F401 - for the code

import lrq  # noqa: E402
from lr_client.subscriber.observer import DeliveryObserver  # noqa: E402
from lrq.contrib.django import engine, transmit  # noqa: E402, F401 - for the code
from queues.browse.api import browse  # noqa: E402
from queues.words import describe  # noqa: E402
from tests.waiting import eventually  # noqa: E402


def tell(*words):
    print(*words, flush=True)


class FirstError(DeliveryObserver):
    """Ends the delivery at the first error."""

    def __init__(self):
        self.came = threading.Event()

    def failed(self, source_id, error):
        if not self.came.is_set():
            tell("error", describe(error))
        self.came.set()


def deliver(made, code):
    names = dict(globals())
    exec(code, names)
    subject = names.get("subject") or lrq.listener("orders")(names["apply"])
    error = FirstError()
    with lrq.subscribe(made, subject, poll_interval=0.02, backoff=5.0, observer=error):
        eventually(lambda: error.came.is_set() or not browse(made, "LRQ_Recv_orders_north").entries)


if __name__ == "__main__":
    engine_of_django = engine()
    for code in sys.argv[1:]:
        deliver(engine_of_django, code)
    engine_of_django.dispose()

"""Deliver the received entries of client `orders` to a listener: `python delivery.py <code>`, in the example project.

The code defines `apply` or `subject`, a listener, and may print lines with `tell`. The process ends once the queue is
empty. After the first error of the subscription the process prints `error <words>` and ends, too.
"""

import os
import signal
import sys
import threading

import django

django.setup()

from django.db import connection, transaction  # noqa: E402, F401 - for the code
from django.db.models import F  # noqa: E402, F401 - for the code
from shop.models import Order, Stock, StockChange  # noqa: E402, F401 - for the code

import lrq  # noqa: E402
from lrq.contrib.django import engine, listener, transmit  # noqa: E402, F401 - for the code
from lrq.contrib.django.listeners import SharingListener  # noqa: E402
from queues.browse.api import browse  # noqa: E402
from queues.words import describe  # noqa: E402
from tests.waiting import eventually  # noqa: E402


def tell(*words):
    print(*words, flush=True)


def die():
    """End this process as a power failure does."""
    os.kill(os.getpid(), signal.SIGKILL)


class Reporting(SharingListener):
    """Ends the delivery at the first error."""

    def __init__(self, inner):
        super().__init__(inner)
        self.failed = threading.Event()

    def on_error(self, source_id, error):
        if not self.failed.is_set():
            tell("error", describe(error))
        self.failed.set()


def main(code):
    names = dict(globals())
    exec(code, names)
    subject = names.get("subject") or listener("orders")(names["apply"])
    made = engine()
    reporting = Reporting(subject)
    with lrq.subscribe(made, reporting, poll_interval=0.02, backoff=5.0):
        eventually(lambda: reporting.failed.is_set() or not browse(made, "LRQ_Recv_orders_north").entries)
    made.dispose()


if __name__ == "__main__":
    main(sys.argv[1])

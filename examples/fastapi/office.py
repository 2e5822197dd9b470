"""Apply the orders at the head office: `python office.py sqlite:///office.db`, until Ctrl-C."""

import json
import sys
import threading

from sqlalchemy import insert, update
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import lrq


class Base(DeclarativeBase): ...


class Stock(Base):
    __tablename__ = "stock"
    item: Mapped[str] = mapped_column(primary_key=True)
    quantity: Mapped[int]


class Apply(lrq.RoutingQueueListener):
    client_name = "orders"

    def process_updates_in_log_entry_sync(self, session, source_id, entries):
        """Take the ordered pieces from the stock, in the transaction that removes the entries."""
        for entry in entries:
            message = json.loads(entry.opaque_payload)
            if session.get(Stock, message["item"]) is None:
                session.execute(insert(Stock).values(item=message["item"], quantity=0))
            taken = Stock.quantity - message["quantity"]
            session.execute(update(Stock).where(Stock.item == message["item"]).values(quantity=taken))
        return True

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync


def main(url):
    engine = lrq.create_engine(url)
    lrq.initialize(engine, site_id="office")
    Base.metadata.create_all(engine)
    with lrq.subscribe(engine, Apply()):
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])

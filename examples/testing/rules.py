"""A tiny application: rules that one site saves and its branches apply."""

import json
from collections.abc import Sequence

from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import lrq
from lr_client import RoutingTableEntryMsg

BRANCHES = ["lima", "tokyo"]
CLIENT = lrq.RoutingQueueSenderClient("rules")


class Base(DeclarativeBase):
    """The tables of the application."""


class Rule(Base):
    """One rule, by its name."""

    __tablename__ = "rules"
    name: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str]


def save_rule(session: Session, name: str, text: str) -> None:
    """Save a rule and tell every branch, in one transaction; raise ValueError for an empty text."""
    session.merge(Rule(name=name, text=text))
    CLIENT.transmit_log_entry_message(session, json.dumps([name, text]).encode(), BRANCHES, item_key=name)
    if not text:
        session.rollback()
        raise ValueError(f"rule {name} has no text")
    session.commit()


class ApplyRules(lrq.RoutingQueueListener):
    """Saves the rules that another site has sent."""

    client_name = "rules"

    def process_updates_in_log_entry_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Save each rule; the subscription commits."""
        del source_id
        for entry in entries:
            name, text = json.loads(entry.opaque_payload)
            session.merge(Rule(name=name, text=text))
        return True

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync

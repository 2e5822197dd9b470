"""The context of a snapshot has the members of its contract, and one more attribute."""

from lr_client import SnapshotContext

CONTRACT = {"sync_id", "destination", "reason", "base", "snapshot", "transmit", "mark_completed", "cancelled"}


def test_the_context_has_the_members_of_the_contract_and_the_attempt():
    assert {name for name in dir(SnapshotContext) if not name.startswith("_")} == CONTRACT | {"attempt"}

"""Sites in the process of a test replicate quickly, say why they wait, and leave nothing behind."""

import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from discovery.server_status import SERVER_LEASE
from lr_client import RoutingQueueListener, RoutingQueueSenderClient, SnapshotContext
from lr_server import LogReplicationServer
from lrq.testing import LocalSite, pair, site, transmitted
from queues.database import leases
from queues.errors import (
    ConfigurationError,
    DestinationsError,
    InvalidNameError,
    UsageError,
    WaitTimeoutError,
    WrongSiteError,
)
from tests.waiting import eventually

pytestmark = pytest.mark.long


class Keeper(RoutingQueueListener):
    """Keeps the payloads of its calls; refuses entries while `broken`."""

    def __init__(self, client_name: str = "policy") -> None:
        self.client_name = client_name
        self.payloads: list[bytes] = []
        self.keys: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.broken = ""

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        if self.broken:
            raise ValueError(self.broken)
        self.payloads += [entry.opaque_payload for entry in entries]
        self.keys += [entry.item_key for entry in entries]
        self.headers += [dict(entry.headers) for entry in entries]
        return True

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync


def test_a_site_is_initialized_and_its_file_is_removed():
    with site("lima") as lima:
        file = Path(str(lima.engine.url.database))
        with lima.session() as session:
            assert session.execute(text("SELECT site_id FROM lrq_site")).scalar() == "lima"
            RoutingQueueSenderClient("policy").transmit_log_entry_message(session, b"1", ["tokyo"])
            assert [entry.payload for entry in transmitted(session)] == [b"1"]
        assert file.exists()
    assert not file.exists()


def test_a_folder_keeps_the_database(tmp_path: Path):
    for expected in (1, 2):
        with site("paris", folder=tmp_path) as paris:
            paris.send("policy", b"1", "tokyo")
            with paris.session() as session:
                assert session.execute(text("SELECT last_id FROM lrq_log_head")).scalar() == expected
    (tmp_path / "paris.db").rename(tmp_path / "lima.db")
    with pytest.raises(WrongSiteError), site("lima", folder=tmp_path):
        pass


def test_threads_share_the_database_of_a_site():
    with site() as paris:
        sending = [threading.Thread(target=paris.send, args=("policy", b"1", "tokyo")) for _ in range(8)]
        for thread in sending:
            thread.start()
        for thread in sending:
            thread.join()
        with paris.session() as session:
            assert session.execute(text("SELECT last_id FROM lrq_log_head")).scalar() == 8


def test_entries_reach_the_other_site():
    with pair("paris", "tokyo") as (paris, tokyo):
        keeper = Keeper()
        tokyo.subscribe(keeper)
        token = paris.send("policy", b"1", "tokyo", item_key="rule", headers={"a": "b"})
        tokyo.wait_applied(token)
        assert (keeper.payloads, keeper.keys, keeper.headers) == ([b"1"], ["rule"], [{"a": "b"}])
        with paris.session() as session, session.begin():
            token = RoutingQueueSenderClient("policy").transmit_log_entry_message(session, b"2", ["tokyo"])
        tokyo.wait_applied(str(token))
        paris.send("policy", b"3")
        paris.settle()
        assert keeper.payloads == [b"1", b"2", b"3"]


def test_three_sites_reach_each_other():
    with pair("paris", "tokyo", "lima") as (paris, tokyo, lima):
        keepers = {each.site_id: Keeper() for each in (paris, tokyo, lima)}
        for each in (paris, tokyo, lima):
            each.subscribe(keepers[each.site_id])
        paris.send("policy", b"all")
        tokyo.send("policy", b"two", "paris", "lima")
        lima.send("policy", b"one", ["tokyo"])
        for each in (paris, tokyo, lima):
            each.settle()
        heard = {name: sorted(keeper.payloads) for name, keeper in keepers.items()}
        assert heard == {"paris": [b"two"], "tokyo": [b"all", b"one"], "lima": [b"all", b"two"]}


def test_nothing_to_send_is_settled_at_once():
    with pair("paris", "tokyo") as (paris, tokyo):
        paris.settle()
        assert repr(tokyo) == "LocalSite('tokyo')"


def test_a_snapshot_is_sent_where_the_settings_ask_for_one():
    class Provider:
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            context.transmit(b"state")
            context.mark_completed()

        def cancel(self, context: SnapshotContext) -> None: ...

    with pair("paris", "tokyo", initial_sync="snapshot") as (paris, tokyo):
        keeper = Keeper()
        tokyo.subscribe(keeper)
        paris.send("policy", b"before")
        transmitter = RoutingQueueSenderClient("policy").start_snapshot_transmitter(paris.engine, Provider())
        paris.settle()
        transmitter.close()
        assert keeper.payloads == [b"state"]


def broken(site: LocalSite) -> None:
    keeper = Keeper()
    keeper.broken = "no such rule"
    site.subscribe(keeper)


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (lambda _tokyo: None, "tokyo has no subscriber of client policy"),
        (lambda tokyo: tokyo.subscribe(Keeper("audit")), "tokyo has no subscriber of client policy"),
        (broken, "the listener of client policy at tokyo fails, .* times: ValueError: no such rule"),
    ],
)
def test_a_wait_in_vain_names_its_reason(prepare: Any, sentence: str):
    with pair("paris", "tokyo") as (paris, tokyo):
        prepare(tokyo)
        token = paris.send("policy", b"1")
        assert paris.server is not None
        paris.server.drain(timeout=20)
        applied = partial(tokyo.wait_applied, token, timeout=0.5)
        eventually(partial(_waits_in_vain, applied, f"after 0.5 s tokyo has not applied .*: {sentence}"))
        settled = partial(paris.settle, timeout=0.5)
        eventually(partial(_waits_in_vain, settled, f"the entries of paris are not applied: {sentence}"))


def test_a_wait_for_an_uncommitted_transaction_says_so():
    with pair("paris", "tokyo") as (paris, tokyo):
        tokyo.subscribe(Keeper())
        tokyo.wait_applied(paris.send("policy", b"1"))
        # The stored state of the session may come later than its first entry.
        paris.settle()
        session = paris.session()
        token = RoutingQueueSenderClient("policy").transmit_log_entry_message(session, b"2", ["tokyo"])
        with pytest.raises(WaitTimeoutError, match="the transaction is not committed"):
            tokyo.wait_applied(token, timeout=0.2)
        with pytest.raises(WaitTimeoutError, match="no server of that site runs here"):
            tokyo.wait_applied(f"lima/policy/{token.branch}/1", timeout=0.1)


def test_a_session_that_waits_for_a_provider_is_named():
    with pair("paris", "tokyo", initial_sync="snapshot") as (paris, _):
        paris.send("policy", b"1")
        settled = partial(paris.settle, timeout=0.5)
        eventually(partial(_waits_in_vain, settled, "the session of policy to tokyo is in snapshot"))


def _waits_in_vain(wait: Callable[[], None], reason: str) -> re.Match[str] | None:
    """Tell whether a short wait names *reason*; on a busy machine the first wait may end before a server worked."""
    with pytest.raises(WaitTimeoutError) as told:
        wait()
    return re.search(reason, str(told.value))


def test_an_open_transaction_that_stops_the_server_is_named():
    with pair("paris", "tokyo") as (paris, tokyo):
        tokyo.subscribe(Keeper())
        paris.send("policy", b"1")
        session = paris.session()
        session.execute(text("SELECT 1"))
        settled = partial(paris.settle, timeout=0.5)
        eventually(partial(_waits_in_vain, settled, "a session of paris has an open transaction"))


def test_a_pair_leaves_no_thread_behind_also_after_an_exception(tmp_path: Path):
    before = set(threading.enumerate())
    held = []

    def fail() -> None:
        with pair("paris", "tokyo", folder=tmp_path) as (paris, tokyo):
            tokyo.subscribe(Keeper())
            held.append(paris.session())
            held[0].execute(text("SELECT 1"))  # holds SQLite's one writer
            raise ValueError("a test fails")

    with pytest.raises(ValueError, match="a test fails"):
        fail()
    # Threads of gRPC that earlier tests have left begin and end at any time.
    eventually(lambda: not set(threading.enumerate()) - before)
    assert not held[0].in_transaction()
    with site("paris", folder=tmp_path) as paris:
        with paris.engine.connect() as connection:
            expires = {row.name: row.expires_us for row in leases.every_lease(connection)}
        assert expires[SERVER_LEASE] == 0, "the session was open while the server released its lease"


class FirstOnly(LogReplicationServer):
    """A server that starts at the site paris only."""

    def start(self) -> None:
        if self._settings.site_id != "paris":
            raise ConfigurationError("the second server cannot start")
        super().start()


def test_a_pair_whose_second_server_cannot_start_closes_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lrq.testing.sites.LogReplicationServer", FirstOnly)
    before = set(threading.enumerate())
    with pytest.raises(ConfigurationError, match="cannot start"), pair("paris", "tokyo"):
        pass
    # Threads of other libraries that earlier tests have left begin and end at any time.
    eventually(lambda: not [each for each in set(threading.enumerate()) - before if each.name.startswith("lrq")])


def test_wrong_sites_are_named():
    with pytest.raises(UsageError, match="two or more different site ids"), pair("paris"):
        pass
    with pytest.raises(UsageError, match="two or more different site ids"), pair("paris", "paris"):
        pass
    with pytest.raises(InvalidNameError, match="is not a valid site id"), pair("paris", "a b"):
        pass
    with pair("paris", "tokyo") as (paris, _):
        with pytest.raises(UsageError, match="a server of site 'tokyo' runs in this process already"):
            pair("lima", "tokyo").__enter__()
        with pytest.raises(DestinationsError):
            paris.send("policy", b"1", "paris")
    with site("paris") as alone:
        with pytest.raises(UsageError, match="paris is alone"):
            alone.settle()
        with pytest.raises(DestinationsError, match="name at least one destination"):
            alone.send("policy", b"1")

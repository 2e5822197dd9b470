"""The topology of a running server: the last good peers of a provider, which is read again and again."""

import threading
from collections.abc import Callable, Mapping
from copy import copy
from typing import Final

from discovery.threads import watched
from discovery.topology import Peer
from lr_server.present_trouble import PresentTrouble
from lr_server.topology.providers import PeerList, TopologyProvider, required
from queues.clock import Clock
from queues.errors import ConfigurationError
from queues.leadership import TopologyFacts
from queues.logs import logger
from queues.names import SiteId
from queues.replica_groups import NO_GROUPS, Groups, checked_groups

log = logger("lrq.topology")

#: A provider that has not answered for this time, in seconds, is a trouble.
PATIENCE: Final = 30.0
#: The seconds that the end of a server waits for a provider.
_END: Final = 2.0
#: The seconds that `refresh` waits for a provider that is polled.
_REFRESH: Final = 5.0

Check = Callable[[Mapping[str, Peer]], Mapping[SiteId, Peer]]


class FollowedTopology:
    """A `Topology` that follows *provider*, from `start` to `stop`.

    A wrong list changes nothing, and neither does one with an older version than before. The last good peers stay, and
    `facts` tells the reason. Before the first good list, `version` is 0 and no site is a peer.
    """

    def __init__(
        self,
        provider: TopologyProvider,
        source: str,
        *,
        check: Check,
        poll_seconds: float | None,
        may_go_back: bool,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        """Read *provider*, named *source* in words, every *poll_seconds*; None for `refresh` alone.

        *check* raises `ConfigurationError` for wrong peers. With *may_go_back* a lower version counts as a change.
        *on_change* is called after new peers and new troubles.
        """
        self._provider = provider
        self._source = source
        self._check = check
        self._poll_seconds = poll_seconds
        self._may_go_back = may_go_back
        self._clock = clock
        self._on_change = on_change
        self._now: tuple[int, Mapping[SiteId, Peer], Groups] = (0, {}, NO_GROUPS)
        self._given: int | None = None
        self._accepted: PeerList | None = None
        self._trouble = PresentTrouble(
            log.bind(source=source), "the peers stay as they are", "the peers can be read again"
        )
        self._began: float | None = None
        self._reading = threading.Lock()
        self._asked: set[threading.Event] = set()
        self._looked = threading.Event()
        self._awake = threading.Event()
        self._stopping = False
        self._thread = watched("lrq-topology", self._run, self._trouble.note)

    @property
    def version(self) -> int:
        """The number of changes; 0 while the peers are not known yet."""
        return self._now[0]

    def peers(self) -> Mapping[SiteId, Peer]:
        """Return the last good peers."""
        return self._now[1]

    def replicas(self) -> Groups:
        """Return the groups of replicas among the last good peers."""
        return self._now[2]

    @property
    def facts(self) -> TopologyFacts:
        """The source of the peers, their version as the provider tells it, and the present trouble."""
        given = self.version if self._given is None else self._given
        return TopologyFacts(self._source, given, self._trouble.reason or self._overdue())

    def start(self, patience: float) -> None:
        """Read the peers; wait at most *patience* seconds for a provider that is polled.

        Raises `ConfigurationError` for wrong peers of another provider, which nothing would read again.
        """
        if self._poll_seconds is None:
            self._read()
            if not self.version:
                raise ConfigurationError(self._trouble.reason)
            return
        self._thread.start()
        self._clock.wait(self._looked, patience)

    def stop(self) -> None:
        """Read no further. May be called twice, and before `start`."""
        self._stopping = True
        self._awake.set()
        # A provider that hangs must not hold up the end of the server.
        self._thread.join(_END)

    def refresh(self) -> None:
        """Read the peers now; an error of the provider is told in `facts`. For any thread.

        The thread of a polled provider does that. The wait for it ends after 5 s, and the reading may go on.
        """
        if not self._thread.is_alive():
            self._read()
            return
        done = threading.Event()
        self._asked.add(done)
        self._awake.set()
        self._clock.wait(done, _REFRESH)
        self._asked.discard(done)

    def _read(self) -> None:
        with self._reading:
            before = self._now, self._trouble.reason
            self._began = self._clock.monotonic()
            try:
                self._take(self._provider.read())
                self._trouble.end()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the provider may be of a third party; told in `facts`
                self._trouble.note(error)
            finally:
                self._began = None
            is_changed = before != (self._now, self._trouble.reason)
        self._looked.set()
        if is_changed and not self._stopping:
            self._on_change()

    def _run(self) -> None:
        assert self._poll_seconds is not None
        while not self._stopping:
            self._awake.clear()
            # A request from now on needs another reading.
            asked = set(self._asked)
            self._read()
            for done in asked:
                done.set()
            if not self._stopping:
                self._clock.wait(self._awake, self._poll_seconds)

    def _take(self, found: object) -> None:
        listed = required(found)
        if listed == self._accepted:
            # The usual case: checking the names of a thousand sites each second would cost CPU.
            return
        number, *present = self._now
        least = None if self._may_go_back else self._given
        if least is not None and listed.version is not None and listed.version < least:
            raise ConfigurationError(f"version {listed.version} is older than version {least}, which stays")
        peers = self._check(listed.by_site)
        groups = checked_groups(listed.replicas, peers)
        is_new = not number or [peers, groups] != present
        if is_new and least is not None and listed.version == least:
            raise ConfigurationError(f"the peers changed, but version {listed.version} did not: raise the version")
        self._given = listed.version
        # A copy, because the provider may change its own mappings and lists later.
        replicas = {name: copy(members) for name, members in listed.replicas.items()}
        self._accepted = PeerList(dict(listed.peers), listed.version, dict(listed.snapshot_endpoints), replicas)
        if is_new:
            self._now = number + 1, peers, groups
            log.info("the peers are read", source=self._source, version=self.facts.version, count=len(peers))

    def _overdue(self) -> str:
        began = self._began
        if began is None or self._clock.monotonic() - began < PATIENCE:
            return ""
        return f"the provider has not answered for {PATIENCE:g} s or longer"

"""The servers that have attached themselves to this one, and the calls that sessions want from them."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from weakref import WeakSet

from queues.clock import RANDOM
from queues.errors import PeerUnreachableError
from queues.names import SiteId
from queues.wire.attachment_pb2 import WantedCall
from sink.attachment.source_call import SourceCall


@dataclass(slots=True, eq=False)
class Attachment:
    """A server of *site*, attached until `end`."""

    site: SiteId
    server: str
    #: Whether the last wanted call did not come.
    is_silent: bool = False
    #: The calls of the server; some may have ended.
    calls: WeakSet[SourceCall] = field(default_factory=WeakSet)
    _wanted: SimpleQueue[WantedCall | None] = field(default_factory=SimpleQueue)

    def ask(self, wanted: WantedCall) -> None:
        """Ask the server for a call."""
        self._wanted.put(wanted)

    def wanted(self) -> Iterator[WantedCall]:
        """Yield the wanted calls until `end`."""
        yield from iter(self._wanted.get, None)

    def end(self) -> None:
        """Ask for no further call."""
        self._wanted.put(None)


@dataclass(slots=True, eq=False)
class Wish:
    """A session wants a call of the attached server `of`."""

    of: Attachment
    number: int
    call: SourceCall | None = None
    _is_over: threading.Event = field(default_factory=threading.Event)

    def wait(self, timeout: float) -> SourceCall:
        """Return the call, which comes within *timeout* seconds; raise `PeerUnreachableError` if none does."""
        is_late = not self._is_over.wait(timeout)
        if self.call is not None:
            self.of.is_silent = False
            return self.call
        if not is_late:
            raise PeerUnreachableError(f"the attached server of {self.of.site} has ended its attachment")
        self.of.is_silent = True
        raise PeerUnreachableError(f"the attached server of {self.of.site} has opened no call within {timeout:g} s")

    def end(self) -> None:
        """End the wait."""
        self._is_over.set()


class Attachments:
    """The attached servers of all sites; any number of threads may share this object."""

    def __init__(self) -> None:
        """Begin without an attached server."""
        self._attached: defaultdict[SiteId, list[Attachment]] = defaultdict(list)
        self._wishes: dict[int, Wish] = {}
        self._guard = threading.Lock()

    def attach(self, site: SiteId, server: str) -> Attachment:
        """Note a server of *site*; the earlier attachment of the same server ends, and its calls too.

        The server has noticed a loss of its connection, which the source may not notice for a minute.
        """
        made = Attachment(site, server)
        with self._guard:
            earlier = [each for each in self._attached[site] if each.server == server]
            lost = [call for each in earlier for call in each.calls]
            self._attached[site] = [each for each in self._attached[site] if each.server != server] + [made]
        for each in earlier:
            each.end()
        for call in lost:
            call.lose()
        return made

    def detach(self, attachment: Attachment) -> None:
        """Forget an attached server, and end the waits for its calls. May be called twice."""
        with self._guard:
            vain = [wish for wish in self._wishes.values() if wish.of is attachment]
            left = [each for each in self._attached[attachment.site] if each is not attachment]
            if left:
                self._attached[attachment.site] = left
            else:
                del self._attached[attachment.site]
        for wish in vain:
            wish.end()

    def is_attached(self, site: SiteId) -> bool:
        """Return whether a server of *site* is attached."""
        with self._guard:
            return site in self._attached

    @contextmanager
    def wish(self, site: SiteId, *, for_snapshots: bool, is_slow: bool) -> Iterator[Wish]:
        """Ask a server of *site* for a call, which may come until the end of the block.

        Of several servers each gets its turn; one that has opened no wanted call comes last. Raises
        `PeerUnreachableError` if no server is attached.
        """
        number = RANDOM.getrandbits(63) or 1
        with self._guard:
            wish = self._wishes[number] = Wish(self._next(site), number)
        is_used = False
        try:
            wish.of.ask(WantedCall(number=number, for_snapshots=for_snapshots, is_slow=is_slow))
            yield wish
            is_used = True
        finally:
            with self._guard:
                del self._wishes[number]
            # A call may come at the very end of the wait.
            if wish.call is not None and not is_used:
                wish.call.end()

    def take(self, number: int, call: SourceCall) -> bool:
        """Give *call* to the session that waits for *number*; return whether one does."""
        with self._guard:
            wish = self._wishes.get(number)
            if wish is None or wish.call is not None:
                return False
            wish.call, call.site = call, wish.of.site
            wish.of.calls.add(call)
        wish.end()
        return True

    def _next(self, site: SiteId) -> Attachment:
        if site not in self._attached:
            raise PeerUnreachableError(
                f"{site} is not attached to this server: name this server in the setting `attach` at {site}, or look "
                f"why {site} does not reach it"
            )
        servers = self._attached[site]
        chosen = min(servers, key=lambda each: each.is_silent)
        servers.remove(chosen)
        servers.append(chosen)
        return chosen

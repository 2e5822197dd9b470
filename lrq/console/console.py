"""The parts of one console: its sites, its access, its actions log and its templates."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sqlalchemy import Engine
from starlette.requests import Request
from starlette.responses import HTMLResponse

from lrq.console.access import Access
from lrq.console.actions import ActionsLog
from lrq.console.links import ShownLink, SiteCard, links, site_card
from lrq.console.payloads import Decoder
from lrq.console.ring_watch import AskMembers, RingWatch
from lrq.console.stream import Changes
from lrq.console.texts import FILTERS, query
from lrq.console.watch import SiteWatch, WatchedSite
from queues.clock import now_us
from queues.errors import UsageError

_HERE: Final = Path(__file__).parent
_MOST_OUTCOMES: Final = 200


@dataclass(frozen=True, slots=True)
class Allowed:
    """The parts of the console that are off unless the operator allows them."""

    actions: bool = False
    payloads: bool = False


@dataclass(slots=True)
class Console:
    """One console; `watches` has its sites in the order in which they were given."""

    watches: Sequence[SiteWatch]
    access: Access
    allowed: Allowed = Allowed()
    decoders: Sequence[Decoder] = ()
    hosts: frozenset[str] = frozenset()
    rings: Sequence[RingWatch] = ()
    changes: Changes = field(default_factory=Changes)
    log: ActionsLog = field(default_factory=ActionsLog)
    outcomes: "OrderedDict[str, str]" = field(default_factory=OrderedDict)
    templates: Environment = field(default_factory=lambda: _templates())

    @classmethod
    def of(
        cls,
        engines: Mapping[str, Engine] | Sequence[Engine],
        access: Access,
        *,
        rings: Mapping[str, AskMembers],
        **options: Any,  # noqa: ANN401
    ) -> "Console":
        """Make a console of *engines*, by the names of their sites or in order; raise `UsageError` without any.

        *rings* has a way to the members of each ring, by the name of its site.
        """
        named = engines if isinstance(engines, Mapping) else {str(n): each for n, each in enumerate(engines, 1)}
        if not named:
            raise UsageError("the console needs one site or more: give it the engines of their databases")
        changes = Changes()
        shows = options.get("allowed", Allowed()).payloads
        watches = tuple(SiteWatch(key, engine, messages=shows, on_change=changes.tell) for key, engine in named.items())
        for watch in watches:
            watch.beside = [each for each in watches if each is not watch]
        asked = tuple(RingWatch(key, ask, on_change=changes.tell) for key, ask in rings.items())
        return cls(watches, access, changes=changes, rings=asked, **options)

    def start(self) -> None:
        """Start to read the sites; further calls do nothing."""
        self.changes.bind(asyncio.get_running_loop())
        for each in self.watches:
            each.start()
        for ring in self.rings:
            ring.repeated.start()

    def stop(self) -> None:
        """Stop all threads after their present work."""
        self.changes.close()
        for each in self.watches:
            each.ask_to_stop()
        for ring in self.rings:
            ring.repeated.ask_to_stop()
        for each in self.watches:
            each.stop()
        for ring in self.rings:
            ring.repeated.stop()

    def views(self) -> list[WatchedSite]:
        """Return the last view of each site."""
        return [each.look() for each in self.watches]

    def links(self) -> list[ShownLink]:
        """Return the links between all sites."""
        return links(self.views())

    def cards(self) -> list[SiteCard]:
        """Return the cards of all sites."""
        return [site_card(view) for view in self.views()]

    def watch(self, key: str) -> SiteWatch:
        """Return the site *key*, the first one for an empty key; raise `UsageError` for an unknown one."""
        if not key:
            return self.watches[0]
        found = next((each for each in self.watches if key in (each.key, each.address)), None)
        if found is None:
            raise UsageError("the console does not watch this site: choose one on the map")
        return found

    def say(self, session: str, outcome: str) -> None:
        """Keep the outcome of an action for the next page of its person."""
        self.outcomes[session] = outcome
        while len(self.outcomes) > _MOST_OUTCOMES:
            self.outcomes.popitem(last=False)

    def _outcome(self, request: Request, session: str) -> str:
        """Take the outcome for a page as a whole; the live part of another tab does not show one."""
        return "" if "hx-request" in request.headers else self.outcomes.pop(session, "")

    def page(self, request: Request, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
        """Render a page; with actions, each page has a cookie and the hidden field of its forms."""
        session = self.access.session(request)
        fresh = "" if session or not (self.allowed.actions or self.access.has_login) else self.access.new_session()
        can_act = self.allowed.actions
        text = self.templates.get_template(template).render(
            root=request.scope.get("root_path", ""),
            here=request.url.path.removeprefix(request.scope.get("root_path", "")) or "/",
            allowed=self.allowed,
            can_act=can_act,
            has_login=self.access.has_login,
            form_token=self.access.form_token(session or fresh) if can_act else "",
            cards=self.cards(),
            has_rings=bool(self.rings),
            outcome=self._outcome(request, session),
            now_us=now_us(),
            **values,
        )
        response = HTMLResponse(text, status)
        if fresh and not self.access.has_login:
            self.access.keep(request, response, fresh)
        return response


def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    made.globals["query"] = query
    return made

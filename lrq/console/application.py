"""The console as an ASGI application: its routes."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from lr_server.settings import Settings
from lrq.cli.ring.members import ask_members
from lrq.console import pages, replay_pages
from lrq.console.access import Access, Authorize, address, is_own_origin
from lrq.console.acting import act
from lrq.console.console import Allowed, Console
from lrq.console.forms import Form
from lrq.console.guard import Guard
from lrq.console.payloads import Decoder
from lrq.console.ring_page import ring_page
from queues.errors import LrqError, SetupError, TransientError, UsageError
from queues.logs import logger
from queues.words import in_words

_log = logger("lrq.console")

_STATIC: Final = Path(__file__).parent / "static"


def app(
    engines: Mapping[str, Engine] | Sequence[Engine],
    *,
    allow_actions: bool = False,
    authorize: Authorize | None = None,
    show_payloads: bool = False,
    decoders: Sequence[Decoder] = (),
    token: str | None = None,
    hosts: Sequence[str] = (),
    rings: Mapping[str, Settings] | None = None,
) -> Starlette:
    """Return the console of the sites of *engines*: an ASGI application to run or to mount in one's own.

    Args:
        engines: The sites' databases by site id, or a sequence of them.
        allow_actions: Whether pages may act, for example retry, park and order replays; otherwise they only read.
        authorize: Gets each request and returns the name of its person for the actions log, or None to refuse. All else
            refuses too, such as an empty name or a bool.
        show_payloads: Whether pages show payloads and item keys' entries in full; otherwise only their sizes.
        decoders: Functions from a payload to a text, or to None for an unknown payload; pages show the texts.
        token: A secret that a person must give once; for a console without *authorize*.
        hosts: The names under which browsers may reach the console; empty for any.
        rings: The settings of one server of each ring, by site id; a page shows the members.

    The application that mounts the console guards it: by *authorize*, by *token*, or around the mount. The threads that
    read the sites start with the first request. `application.state.console.stop()` ends them.

    Raises `UsageError` without engines, and for a token below 16 characters.

    Example:
        >>> application = Starlette(routes=[Mount("/lrq", console.app({"paris": engine}, authorize=by_session))])
    """
    access = Access(authorize=authorize, token=token)
    allowed = Allowed(actions=allow_actions, payloads=show_payloads)
    console = Console.of(
        engines, access, allowed=allowed, decoders=tuple(decoders), hosts=frozenset(each.lower() for each in hosts),
        rings={site: partial(ask_members, settings) for site, settings in (rings or {}).items()},
    )  # fmt: skip
    made = Starlette(
        routes=[
            _page("/", pages.map_page),
            _page("/link", pages.link_page),
            _page("/entries", pages.entries_page),
            _page("/entry", pages.entry_page),
            _page("/snapshots", pages.snapshots_page),
            _page("/snapshot", pages.snapshot_page),
            _page("/parked", pages.parked_page),
            _page("/parked/one", pages.parked_one_page),
            _page("/parked/blocked", pages.blocked_page),
            _page("/replays", replay_pages.replays_page),
            _page("/replay", replay_pages.replay_page),
            _page("/ring", ring_page),
            _page("/actions", pages.actions_page),
            Route("/act", _guarded(act), methods=["POST"]),
            Route("/login", _login, methods=["GET", "POST"]),
            Route("/events", _events, methods=["GET"]),
            Mount("/static", StaticFiles(directory=_STATIC), name="static"),
        ],
        middleware=[Middleware(Guard, console=console)],
        lifespan=_lifespan,
    )
    made.state.console = console
    return made


@asynccontextmanager
async def _lifespan(application: Starlette) -> AsyncIterator[None]:
    application.state.console.start()
    yield
    application.state.console.stop()


def _page(path: str, page: Callable[[Console, Request], Any]) -> Route:
    return Route(path, _guarded(page), methods=["GET"])


def _guarded(page: Callable[[Console, Request], Any]) -> Callable[[Request], Any]:
    """Turn the errors of lrq into pages of one sentence."""

    async def answer(request: Request) -> Response:
        console: Console = request.app.state.console
        console.start()
        try:
            found: Response = await page(console, request)
        except UsageError as error:
            return _problem(console, request, error, 400)
        except (TransientError, SetupError, SQLAlchemyError) as error:
            return _problem(console, request, error, 503)
        except LrqError as error:
            return _problem(console, request, error, 500)
        return found

    return answer


def _problem(console: Console, request: Request, error: Exception, status: int) -> Response:
    return console.page(request, "problem.html", status=status, words=in_words(error))


async def _login(request: Request) -> Response:
    console: Console = request.app.state.console
    root = request.scope.get("root_path", "")
    if not console.access.has_login:
        return RedirectResponse(f"{root}/", 303)
    if request.method == "GET":
        return console.page(request, "login.html", words="")
    try:
        form = await Form.of(request)
    except UsageError as error:
        return console.page(request, "login.html", status=400, words=str(error))
    if not is_own_origin(request) or not console.access.fits(form.get("given").strip()):
        _log.warning("a login was refused", caller=address(request))
        return console.page(request, "login.html", status=403, words="this is not the token of the console")
    response = RedirectResponse(f"{root}/", 303)
    console.access.keep(request, response, console.access.new_session())
    return response


async def _events(request: Request) -> Response:
    console: Console = request.app.state.console
    console.start()
    if console.changes.is_full:
        return PlainTextResponse("too many tabs are open: this one is loaded again every 15 seconds\n", 503)
    for each in console.watches:
        each.attend()
    for ring in console.rings:
        ring.repeated.attend()
    return StreamingResponse(console.changes.stream(), media_type="text/event-stream")

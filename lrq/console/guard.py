"""Around every request: the host name, the person, and the headers that keep other pages out."""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lrq.console.console import Console

#: No script, style, picture or form of another place, and no frame around the console.
POLICY: Final = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: with that, browsers hide the origin of forms too.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
#: Paths that need no token: the page that asks for it, and its style.
_OPEN: Final = ("/login", "/static/")


class Guard:
    """An ASGI middleware; a refused request reaches no page."""

    def __init__(self, app: ASGIApp, console: Console) -> None:
        """Guard *app*, the pages of *console*."""
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a page, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        refused = await self._refused(connection, path)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                # After an upgrade, a browser must not go on with the former scripts.
                headers["cache-control"] = "no-cache" if path.startswith("/static/") else "no-store"
            await send(message)

        if refused is not None:
            await refused(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)

    async def _refused(self, connection: HTTPConnection, path: str) -> Response | None:
        if not self._is_own_host(connection):
            return PlainTextResponse("this console answers only to the name of this machine\n", 421)
        if path.startswith(_OPEN):
            return None
        person = await self._console.access.person(connection)
        if person is None:
            if self._console.access.has_login and connection.scope["method"] == "GET" and path != "/events":
                return RedirectResponse(f"{connection.scope.get('root_path', '')}/login", 303)
            return PlainTextResponse("you may not see this console\n", 403)
        connection.scope.setdefault("state", {})["person"] = person
        return None

    def _is_own_host(self, connection: HTTPConnection) -> bool:
        """Without a token, a name of another site that points to this machine must not open the console."""
        host = connection.headers.get("host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        return not self._console.hosts or name.strip("[]").lower() in self._console.hosts

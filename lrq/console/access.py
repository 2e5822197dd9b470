"""Access to the console: the token, its cookie, and the proof that a form is the console's own."""

import hashlib
import hmac
import inspect
import secrets
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from queues.errors import UsageError

#: Returns the name of a person for the actions log; all else refuses, such as None. May be a coroutine function.
Authorize = Callable[[HTTPConnection], "str | Awaitable[str | None] | None"]

#: The name of the cookie, without the port.
COOKIE: Final = "lrq_console"
#: The shortest token that is accepted, in characters.
SHORTEST_TOKEN: Final = 16
_DAYS: Final = 14
_SEPARATOR: Final = "."


class Access:
    """Decides each request: by *authorize* of the application, by *token*, or, without both, admits each request.

    A cookie holds a random number signed with a key. With a token, the key is made from the token: cookies outlive the
    console, and end with the token.
    """

    def __init__(self, *, authorize: Authorize | None = None, token: str | None = None) -> None:
        """Raise `UsageError` for a token that could be guessed."""
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise UsageError(f"the console's token is too short: use {SHORTEST_TOKEN} characters or more")
        self._authorize = authorize
        self._token = token
        seed = secrets.token_bytes(32) if token is None else token.encode()
        self._key = hashlib.sha256(b"lrq console\0" + seed).digest()

    @property
    def has_login(self) -> bool:
        """Whether the console has a page that asks for the token."""
        return self._token is not None

    async def person(self, request: HTTPConnection) -> str | None:
        """Return the person of a request for the actions log; None for a refused request."""
        if self._authorize is not None:
            found = self._authorize(request)
            person: object = await found if inspect.isawaitable(found) else found
            # A function that answers False or an empty name has refused, too.
            return person if isinstance(person, str) and person else None
        if self._token is None:
            return address(request)
        if self.session(request) or self._bears_token(request):
            return f"token, {address(request)}"
        return None

    def fits(self, given: str) -> bool:
        """Return whether *given* is the token, in constant time."""
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def session(self, request: HTTPConnection) -> str:
        """Return the number in a valid cookie; an empty text without one."""
        number, separator, signature = request.cookies.get(cookie_name(request), "").partition(_SEPARATOR)
        is_ours = separator and hmac.compare_digest(signature.encode(), self._sign("cookie", number).encode())
        return number if is_ours else ""

    def new_session(self) -> str:
        """Return a number for a new cookie."""
        return secrets.token_urlsafe(24)

    def keep(self, request: Request, response: Response, session: str) -> None:
        """Set the cookie of *session*."""
        response.set_cookie(
            cookie_name(request),
            f"{session}{_SEPARATOR}{self._sign('cookie', session)}",
            max_age=_DAYS * 86_400 if self.has_login else None,
            path=request.scope.get("root_path") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    def form_token(self, session: str) -> str:
        """Return the hidden field of each form for *session*."""
        return self._sign("form", session)

    def is_own_form(self, request: Request, given: str) -> bool:
        """Return whether a form comes from a page of this console: its origin and its hidden field say so."""
        session = self.session(request)
        is_signed = bool(session) and hmac.compare_digest(given.encode(), self.form_token(session).encode())
        return is_signed and is_own_origin(request)

    def _bears_token(self, request: HTTPConnection) -> bool:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self.fits(given.strip())

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{text}".encode(), "sha256").hexdigest()


def cookie_name(request: HTTPConnection) -> str:
    """Return the name of the cookie. Browsers send the cookies of a host to all its ports, so each has its own."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdecimal() else COOKIE


def is_own_origin(request: Request) -> bool:
    """Return whether the browser names the console's own host as the origin of the request; browsers always do."""
    try:
        origin = urlsplit(request.headers.get("origin", "")).netloc
    except ValueError:  # no URL
        return False
    return bool(origin) and origin == request.headers.get("host", "")


def address(request: HTTPConnection) -> str:
    """Return the address of the caller, or of the one that a reverse proxy on this machine names."""
    return request.client.host if request.client else "unknown address"

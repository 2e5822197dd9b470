"""Consoles over real sites, and clients that use them as a browser does."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest
from starlette.applications import Starlette

from lrq import console
from lrq.console.access import COOKIE
from tests.lrq.console.served import served
from tests.lrq.console.world import World, world
from tests.waiting import eventually


class Visitor:
    """A browser without JavaScript: follows links and sends the forms of pages."""

    def __init__(self, client: httpx.Client, application: Starlette) -> None:
        self.client = client
        self.application = application
        self.origin = str(client.base_url).rstrip("/")

    @property
    def cookie(self) -> str:
        """The name of the console's cookie."""
        return f"{COOKIE}_{self.client.base_url.port}"

    def get(self, path: str, status: int = 200) -> str:
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.text

    def token(self, path: str = "/") -> str:
        found = re.search(r'name="token" value="([0-9a-f]{64})"', self.get(path))
        assert found, "the page has no form"
        return found[1]

    def form_token(self) -> str:
        """Return the hidden field for the cookie, on pages without a form too."""
        self.get("/")
        number = self.client.cookies[self.cookie].strip('"').partition(".")[0]
        return self.application.state.console.access.form_token(number)

    def act(self, token: str, origin: str | None = "own", **fields: object):
        headers = {} if origin is None else {"origin": self.origin if origin == "own" else origin}
        return self.client.post("/act", data={"token": token, **fields}, headers=headers)


@pytest.fixture(scope="module")
def sites() -> Iterator[World]:
    """Give three running sites, for all tests of a module."""
    with world() as made:
        yield made


@pytest.fixture
def visit() -> Iterator[Callable[..., Visitor]]:
    """Give a function that makes a console of some engines, and a visitor; all sites have been read."""
    with ExitStack() as stack:

        def make(engines, *, ready: bool = True, application: Starlette | None = None, **options) -> Visitor:
            made = application or console.app(engines, **options)
            client = stack.enter_context(httpx.Client(base_url=stack.enter_context(served(made)), timeout=30))
            if ready:
                own = made.state.console
                eventually(lambda: all(view.status or view.trouble for view in own.views()))
            return Visitor(client, made)

        yield make

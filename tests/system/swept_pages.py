"""A visitor of the console that follows every link and keeps every page."""

import html
import re
from collections import deque

import httpx

from tests.waiting import eventually

#: More pages than the small world has. A page that makes ever new links ends the visit with an error.
_MOST = 300


def every_page(client: httpx.Client) -> dict[str, str]:
    """Return all pages that links from the map lead to, by their paths, and the first event of the stream."""
    eventually(lambda: "/link?" in client.get("/").text and "/parked?" in client.get("/").text)
    seen: dict[str, str] = {}
    ahead = deque(["/", "/entries?all=1", "/parked?text=poison", "/entry?site=paris&queue=x&at=1", "/nowhere"])
    while ahead:
        path = ahead.popleft()
        if path in seen:
            continue
        assert len(seen) < _MOST, f"too many pages: {path}"
        seen[path] = client.get(path).text
        ahead.extend(_links(seen[path]))
    with client.stream("GET", "/events?page=/") as answer:
        seen["/events"] = next(answer.iter_text(), "")
    return seen


def act(client: httpx.Client, page: str, **fields: str) -> str:
    """Send the form of *page* as a browser does, and return the answer."""
    found = re.search(r'name="token" value="([0-9a-f]{64})"', client.get(page).text)
    assert found, f"{page} has no form"
    origin = {"origin": str(client.base_url).rstrip("/")}
    return client.post("/act", data={"token": found[1], **fields}, headers=origin, follow_redirects=True).text


def _links(page: str) -> list[str]:
    found = [html.unescape(each) for each in re.findall(r'href="(/[^"#]*)"', page)]
    return [each for each in found if not each.startswith("/static/")]

"""The page about rings: the members of each ring, with their states."""

from starlette.requests import Request
from starlette.responses import Response

from lrq.console.console import Console


async def ring_page(console: Console, request: Request) -> Response:
    """Show the members of all rings that the console watches."""
    return console.page(request, "ring.html", rings=[each.look() for each in console.rings])

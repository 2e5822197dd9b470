"""The pages about replays: the orders of all sites, and one receive queue with the form for an order."""

from starlette.requests import Request
from starlette.responses import Response

from lrq.console.console import Console
from queues.errors import UsageError


async def replays_page(console: Console, request: Request) -> Response:
    """Show the orders that wait and those that have ended in the last hour, of all sites."""
    return console.page(request, "replays.html", views=console.views())


async def replay_page(console: Console, request: Request) -> Response:
    """Show one receive queue with its order; with actions, also the form for another one."""
    asked = request.query_params
    view = console.watch(asked.get("site", "")).look()
    wanted = asked.get("client", ""), asked.get("source", "")
    queues = view.status.receive_queues if view.status else ()
    queue = next((each for each in queues if (each.client, each.source) == wanted), None)
    if queue is None or view.status is None:
        raise UsageError("there is no such receive queue now: choose one on the page of replays")
    order = next((each for each in view.status.replays if (each.client, each.source) == wanted), None)
    return console.page(request, "replay.html", site=view, queue=queue, order=order)

"""The pages `/healthz` and `/readyz` beside `/metrics`, for probes of Kubernetes, systemd and load balancers."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

#: A page: its word for "yes", and a function that returns one sentence for each trouble.
Page = tuple[str, Callable[[], Mapping[str, str]]]
#: An application of WSGI.
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

LIVE: Final = "/healthz"
READY: Final = "/readyz"
#: The paths of the metrics, without a slash at the end.
_METRICS: Final = ("", "/metrics")


def with_pages(others: Application, pages: Mapping[str, Page]) -> Application:
    """Return an application that serves *pages* by their paths, and *others* at `/` and `/metrics`.

    A page is JSON, such as {"ready": false, "troubles": {"database": "..."}}: 200 without troubles, else 503. Another
    path is 404, so that a probe with a misspelt path does not find the server healthy for ever.
    """

    def serve(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        page = pages.get(path)
        if page is None and path.rstrip("/") in _METRICS:
            return others(environ, start)
        if page is None:
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [f"there are only these pages: {', '.join([*pages, '/metrics'])}\n".encode()]
        word, find = page
        troubles = dict(find())
        body = json.dumps({word: not troubles, "troubles": troubles}).encode() + b"\n"
        status = "503 Service Unavailable" if troubles else "200 OK"
        start(status, [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
        return [b"" if environ.get("REQUEST_METHOD") == "HEAD" else body]

    return serve

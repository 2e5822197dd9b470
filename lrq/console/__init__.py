"""The web console: pages about several sites, as an ASGI application. See docs/console.md.

Example:
    >>> from lrq import console
    >>> application = console.app({"paris": paris_engine, "tokyo": tokyo_engine})
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lrq.console.application import app

__all__ = ["app"]


if not TYPE_CHECKING:  # otherwise a type checker believes every misspelt name

    def __getattr__(name: str) -> object:
        """Load `app` at its first use, with the libraries of the extra `console`."""
        if name != "app":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from queues.extras import require_libraries

        require_libraries("console", "the console", ("starlette", "jinja2", "grpc", "pydantic_settings"))
        return import_module("lrq.console.application").app

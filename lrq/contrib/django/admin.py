"""The page of the admin site: sessions, lag and queues of this site, read-only and without payloads."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.template.response import TemplateResponse
from django.urls import path

from lrq.contrib.django.conf import app_settings
from lrq.contrib.django.engines import temporary
from lrq.contrib.django.models import Replication
from queues.errors import LrqError
from queues.words import in_words

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from discovery.site_status import SiteStatus


@admin.register(Replication)
class ReplicationAdmin(admin.ModelAdmin):
    """One page for staff with the permission to view it; nothing can be added, changed or deleted."""

    def get_urls(self) -> list[Any]:
        """Return only the page: the model has no table for the other views."""
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name="lrq_replication_changelist")]

    def has_add_permission(self, _request: "HttpRequest") -> bool:
        """Return False."""
        return False

    def has_change_permission(self, _request: "HttpRequest", _row: object = None) -> bool:
        """Return False."""
        return False

    def has_delete_permission(self, _request: "HttpRequest", _row: object = None) -> bool:
        """Return False."""
        return False

    def changelist_view(self, request: "HttpRequest", extra_context: dict[str, Any] | None = None) -> "HttpResponse":
        """Show the status of the site at this moment, or the reason why there is none."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": "Replication status",
            "opts": self.model._meta,  # noqa: SLF001 - Django's templates need it
            **_shown(),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/lrq/replication/status.html", context)


def _shown() -> dict[str, Any]:
    try:
        with temporary(app_settings().database) as engine:
            return _content(_read(engine))
    except LrqError as error:
        return {"problem": in_words(error)}


def _read(engine: Any) -> "SiteStatus":  # noqa: ANN401 - an engine
    # Not at the top: an application that only sends may lack the server's libraries, and needs no page.
    from discovery.status import read_status

    return read_status(engine)


def _content(status: "SiteStatus") -> dict[str, Any]:
    from lrq.cli.health import troubles
    from queues.clock import iso

    return {"status": status, "at": iso(status.at_us), "troubles": troubles(status.without_messages())}

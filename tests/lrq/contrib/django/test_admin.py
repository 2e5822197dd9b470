"""The page of the admin site: for staff with the permission, read-only, without payloads."""

import pytest

from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.contrib.django.project import Project

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(480)]

VISIT = """
import logging
from django.contrib.auth.models import Permission, User
from django.test import Client
logging.disable()

def visit(name, path, **options):
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client.get(path, **options)

PAGE = "/admin/lrq/replication/"
User.objects.create_superuser("root")
User.objects.create_user("customer")
User.objects.create_user("clerk", is_staff=True)
operator = User.objects.create_user("operator", is_staff=True)
operator.user_permissions.add(Permission.objects.get(codename="view_replication"))
"""


def test_only_staff_with_the_permission_sees_the_page(office: Project):
    code = """
for name in ("root", "operator", "clerk", "customer"):
    found = visit(name, PAGE)
    index = visit(name, "/admin/").content.decode()
    print(name, found.status_code, PAGE in index)
print(Client().get(PAGE).status_code)
print([visit("root", PAGE + path).status_code for path in ("add/", "1/change/", "1/delete/", "1/history/")])
print(Client().post(PAGE).status_code)
"""
    assert office.python(VISIT + code) == [
        "root 200 True",
        "operator 200 True",
        "clerk 403 False",
        "customer 302 False",
        "302",
        "[404, 404, 404, 404]",
        "302",
    ]


def test_the_page_shows_the_queues_and_no_payload(office: Project, north: Arrivals):
    north.tick([b"a secret payload"], [b"another secret"])
    page = "\n".join(office.python(VISIT + "print(visit('operator', PAGE).content.decode())"))
    assert "Site <strong>office</strong>" in page
    assert "<td>LRQ_Recv_orders_north</td><td>orders</td><td>north</td>" in page
    assert "<td>none, not subscribed</td>\n<td>2</td>" in page
    assert "LRQ_Recv_orders_north holds 2 entries, and no subscriber of orders works here: start one" in page
    assert "secret" not in page


def test_the_page_says_why_there_is_no_status(office: Project):
    office.manage("migrate", "lrq", "zero", "--verbosity", "0")
    page = "\n".join(office.python(VISIT + "print(visit('root', PAGE).content.decode())"))
    assert 'class="errornote">the database has no lrq tables' in page

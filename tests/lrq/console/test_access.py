"""The console admits a request by name, token or application, and believes only its own forms."""

import pytest

from lrq import console
from queues.errors import UsageError

TOKEN = "a-token-of-24-characters"


@pytest.fixture
def engines(new_site):
    return {"paris": new_site("paris")}


def test_a_console_reads_only_unless_told_otherwise(engines, visit):
    visitor = visit(engines)
    assert "read-only" in visitor.get("/")
    assert visitor.act("0" * 64, do="retry", site="paris", id=1).status_code == 403
    assert 'name="token"' not in visitor.get("/parked")


def test_with_a_token_no_page_is_shown_before_it_is_given(engines, visit):
    visitor = visit(engines, token=TOKEN)
    for path in ("/", "/entries", "/parked", "/actions"):
        answer = visitor.client.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert "paris" not in answer.text
    assert visitor.client.get("/events").status_code == 403
    assert visitor.client.post("/act", data={}).status_code == 403
    assert "Token of the console" in visitor.get("/login")


def test_the_token_opens_the_console_by_a_cookie_that_scripts_cannot_read(engines, visit):
    visitor = visit(engines, token=TOKEN)
    wrong = visitor.client.post("/login", data={"given": "wrong"}, headers={"origin": visitor.origin})
    assert wrong.status_code == 403
    assert "set-cookie" not in wrong.headers
    foreign = visitor.client.post("/login", data={"given": TOKEN}, headers={"origin": "http://evil.example"})
    assert foreign.status_code == 403
    right = visitor.client.post("/login", data={"given": TOKEN}, headers={"origin": visitor.origin})
    assert right.status_code == 303
    cookie = right.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    visitor.get("/")


def test_a_refused_login_is_told_in_the_log_without_its_token(engines, visit, caplog):
    visitor = visit(engines, token=TOKEN)
    visitor.client.post("/login", data={"given": "almost-the-token"}, headers={"origin": visitor.origin})
    told = [record.getMessage() for record in caplog.records if record.name == "lrq.console"]
    assert told == ["event='a login was refused' caller='127.0.0.1'"]


def test_a_cookie_with_another_signature_opens_nothing(engines, visit):
    visitor = visit(engines, token=TOKEN)
    visitor.client.cookies.set(visitor.cookie, "number." + "0" * 64)
    assert visitor.client.get("/").status_code == 303


def test_consoles_at_two_ports_of_one_host_do_not_end_each_others_sessions(engines, visit):
    visitor, other = visit(engines, token=TOKEN), visit(engines, token=f"another-{TOKEN}")
    # One store of cookies for all ports of a host, as in a browser.
    browser = visitor.client
    for origin, given in ((visitor.origin, TOKEN), (other.origin, f"another-{TOKEN}")):
        browser.post(f"{origin}/login", data={"given": given}, headers={"origin": origin})
    assert [browser.get(origin).status_code for origin in (visitor.origin, other.origin)] == [200, 200]


def test_a_program_may_send_the_token_with_each_request(engines, visit):
    visitor = visit(engines, token=TOKEN)
    assert visitor.client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert visitor.client.get("/", headers={"authorization": "Bearer wrong"}).status_code == 303


def test_a_short_token_is_refused(engines):
    with pytest.raises(UsageError, match="too short: use 16 characters"):
        console.app(engines, token="short")


def test_a_console_without_sites_is_refused():
    with pytest.raises(UsageError, match="needs one site"):
        console.app({})


def test_the_application_decides_by_authorize(engines, visit):
    async def by_header(request):
        return request.headers.get("x-person")

    visitor = visit(engines, authorize=by_header)
    assert visitor.client.get("/").status_code == 403
    assert visitor.client.get("/", headers={"x-person": "ada"}).status_code == 200


@pytest.mark.parametrize("answer", [None, False, True, "", 0, 1])
def test_each_answer_of_authorize_but_a_name_refuses(engines, visit, answer):
    assert visit(engines, authorize=lambda _request: answer).client.get("/").status_code == 403


def test_a_browser_asks_whether_the_scripts_have_changed(engines, visit):
    first = visit(engines).client.get("/static/console.js")
    assert first.headers["cache-control"] == "no-cache"
    assert first.headers["etag"]


def test_without_a_token_only_names_of_this_machine_open_the_console(engines, visit):
    visitor = visit(engines, hosts=("127.0.0.1", "localhost", "::1"))
    visitor.get("/")
    for host in ("localhost:8080", "[::1]:8080"):
        assert visitor.client.get("/", headers={"host": host}).status_code == 200
    assert visitor.client.get("/", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://[::1", None])
def test_a_form_of_another_place_is_refused(engines, visit, origin):
    visitor = visit(engines, allow_actions=True)
    token = visitor.form_token()
    assert visitor.act(token, origin, do="request", site="paris", client="c", destination="tokyo").status_code == 403


def test_a_form_needs_the_hidden_field_of_its_own_cookie(engines, visit):
    visitor, other = visit(engines, allow_actions=True), visit(engines, allow_actions=True)
    for token in ("", "0" * 64, other.form_token()):
        answer = visitor.act(token, do="request", site="paris", client="c", destination="tokyo")
        assert answer.status_code == 403
    visitor.form_token()
    visitor.client.cookies.clear()
    assert (
        visitor.act(other.form_token(), do="request", site="paris", client="c", destination="tokyo").status_code == 403
    )


def test_every_answer_forbids_foreign_scripts_frames_and_caches(engines, visit):
    answer = visit(engines).client.get("/")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert " style=" not in answer.text

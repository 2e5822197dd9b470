"""The answer to a form that asks for an action."""

from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from lrq.console.actions import MOST, Action, ActionKind, carry_out, matching
from lrq.console.console import Console
from lrq.console.forms import Form
from lrq.console.reading import LateError
from lrq.console.watch import SiteWatch
from queues.errors import LrqError, UsageError
from queues.words import in_words

#: The advice after an action without an answer in time.
_LATE: Final = "the action may still be carried out, and then stands under Actions; look there before you try again"
#: The field with the newest parked transaction that a question was about.
_UPTO: Final = "upto"


async def act(console: Console, request: Request) -> Response:
    """Carry out an action, after asking again for one that destroys something; note it in the log."""
    if not console.allowed.actions:
        return PlainTextResponse("this console only reads: start it with --allow-actions\n", 403)
    form = await Form.of(request)
    if not console.access.is_own_form(request, form.get("token")):
        return PlainTextResponse("this form is not of a page of this console: load the page again\n", 403)
    watch = console.watch(form.get("site"))
    action = form.action()
    if form.get("all"):
        text = form.get("text")
        client, source = form.get("client") or None, form.get("source") or None
        shows = console.allowed.payloads
        found = await watch.pages.call(lambda: matching(watch.reading, client, source, text, messages=shows))
        upto = form.number(_UPTO)
        # The question was not about later ones.
        action = Action(action.kind, tuple(each.id for each in found if upto is None or each.id <= upto))
    if action.kind in (ActionKind.RETRY, ActionKind.DISCARD) and not action.ids:
        raise UsageError("no parked transaction is chosen: go back and choose one")
    if len(action.ids) > MOST:
        raise UsageError(f"more than {MOST:,} are chosen: choose fewer")
    name = watch.look().name
    if action.needs_confirmation and not form.get("confirmed"):
        fields = form.items() + ([(_UPTO, str(max(action.ids, default=0)))] if form.get("all") else [])
        return console.page(request, "confirm.html", action=action, site=name, fields=fields, back=form.back())
    person = request.state.person
    try:
        words = await watch.pages.call(lambda: _carried_out(console, watch, action, person), late=_LATE)
    except LateError as error:
        console.log.note(person, name, f"{action.kind.value}: {in_words(error)}", failed=True)
        raise
    console.say(console.access.session(request), f"{name}: {words}")
    watch.refresh()
    return RedirectResponse(request.scope.get("root_path", "") + form.back(), 303)


def _carried_out(console: Console, watch: SiteWatch, action: Action, person: str) -> str:
    """Carry out an action and note its outcome, also after the page was given up."""
    name = watch.name
    try:
        words = carry_out(watch.engine, action, person)
    except LrqError as error:
        console.log.note(person, name, f"{action.kind.value}: {in_words(error)}", failed=True)
        raise
    console.log.note(person, name, words)
    return words

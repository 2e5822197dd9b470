"""Every state meets every event, and each pair has the outcome in the table."""

import typing
from collections import Counter
from collections.abc import Iterable

import pytest

from lr_server.protocol.effects import Effect, Ignored, Report
from lr_server.protocol.events import Event, RefusalKind
from lr_server.protocol.machine import advance
from lr_server.protocol.states import State, describe
from queues.positions import Position
from queues.wire.replication_pb2 import Refusal
from tests.lr_server.protocol.transitions import CHANGES, EVENTS, IGNORED, STATES

PAIRS = [(state, event) for state in STATES for event in EVENTS]


def _words(effects: Iterable[Effect]) -> str:
    return ", ".join(_word(effect) for effect in effects if not isinstance(effect, Report))


def _word(effect: Effect) -> str:
    shown = []
    for name in type(effect).__dataclass_fields__:
        value = getattr(effect, name)
        if name == "reason" or value is False:
            continue
        shown.append("slow" if value is True else str(value.seq if isinstance(value, Position) else value))
    return type(effect).__name__ + (f"({', '.join(shown)})" if shown else "")


def test_the_table_names_every_pair_exactly_once():
    declared = Counter((state, event) for state, outcomes in CHANGES.items() for event in outcomes)
    declared.update((state, event) for state, why in IGNORED.items() for events in why.values() for event in events)
    assert declared == Counter(PAIRS)


@pytest.mark.parametrize(
    ("state", "event"), [(state, event) for state, event in PAIRS if event in CHANGES[state]], ids=" + ".join
)
def test_a_change_is_as_declared(state: str, event: str):
    after, effects = advance(STATES[state], EVENTS[event])
    asked = _words(effects)
    assert f"{describe(after).name}: {asked}".removesuffix(": ") == CHANGES[state][event]
    assert after != STATES[state] or asked


def test_an_ignored_event_changes_no_state_and_has_its_reason():
    for state, reasons in IGNORED.items():
        for why, events in reasons.items():
            for event in events:
                assert advance(STATES[state], EVENTS[event]) == (STATES[state], (Ignored(why),)), f"{state} + {event}"


def test_the_status_is_reported_exactly_when_it_changes():
    for state, event in PAIRS:
        after, effects = advance(STATES[state], EVENTS[event])
        reported = [effect.words for effect in effects if isinstance(effect, Report)]
        changed = describe(after) != describe(STATES[state])
        assert reported == ([describe(after)] if changed else []), f"{state} + {event}"


def test_the_table_has_every_kind_of_state_and_event():
    assert {type(state) for state in STATES.values()} == set(typing.get_args(State))
    assert {type(event) for event in EVENTS.values()} == set(typing.get_args(Event))


def test_refusals_have_the_numbers_of_the_wire():
    assert {kind.name: kind.value for kind in RefusalKind} == dict(Refusal.Kind.items())


def test_an_unknown_refusal_is_unspecified():
    assert RefusalKind(4711) is RefusalKind.UNSPECIFIED

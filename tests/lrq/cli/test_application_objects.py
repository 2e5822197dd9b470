"""`MODULE:NAME` finds a listener or a provider; each wrong one is refused in one sentence."""

import sys
from pathlib import Path

import pytest

from discovery.object_reference import Reference, find_object, parse_reference
from lrq.cli.application_objects import listeners_of
from queues.errors import ConfigurationError, LrqError, UsageError
from tests.lrq.cli import worker_application

APPLICATION = "tests.lrq.cli.worker_application"


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore Python's path after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def module(elsewhere: Path, request: pytest.FixtureRequest):
    """Give a function that writes a new module into the working directory and returns its name."""

    def write(text: str) -> str:
        name = f"application_{len(list(elsewhere.iterdir()))}_{abs(hash(request.node.nodeid))}"
        (elsewhere / f"{name}.py").write_text(text)
        return name

    return write


@pytest.mark.parametrize("name", ["apply", "instance", "Nested.apply"])
def test_an_object_is_found_by_its_name(name: str):
    found = find_object(Reference(APPLICATION, name))
    assert found is (worker_application.instance if name == "instance" else worker_application.apply)


def test_a_function_without_parameters_makes_the_listener():
    found = listeners_of([Reference(APPLICATION, "factory")])
    assert list(found) == ["policy"]


def test_listeners_of_different_clients_are_found_together():
    found = listeners_of([Reference(APPLICATION, "audit"), Reference(APPLICATION, "apply")])
    assert found == {"audit": worker_application.audit, "policy": worker_application.apply}


def test_two_listeners_of_one_client_are_refused():
    with pytest.raises(UsageError, match=r":apply and .*:park both listen to client 'policy': name one of them"):
        listeners_of([Reference(APPLICATION, "apply"), Reference(APPLICATION, "park")])


@pytest.mark.parametrize("text", ["app", "app:", ":apply", "app:a b", "app:apply:x", "", "app.:x", "1:x"])
def test_a_text_of_another_form_is_refused(text: str):
    with pytest.raises(UsageError, match=r"is no MODULE:NAME: write both, such as app.listeners:apply"):
        parse_reference(text)


@pytest.mark.parametrize("text", ["app.py", "app/listeners:apply", "listeners.py"])
def test_a_file_is_refused(text: str):
    with pytest.raises(UsageError, match="is a file: write the module and a name"):
        parse_reference(text)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Apply", r"Apply is a class: name an object, a function with @lrq.listener, or"),
        ("plain", r'is no listener \(the listener is the function plain: decorate it with @lrq.listener\("CLIENT"\)\)'),
        ("asynchronous", "asynchronous is `async def`"),
        ("asynchronous_factory", "asynchronous_factory is `async def`"),
        ("APPLICATION", "there is no 'APPLICATION' in .*worker_application.py: name an object of the module"),
        ("instanse", "did you mean 'instance'"),
        ("QUICK", r"is no listener \(the listener dict has no method process_updates_in_snapshot_sync"),
        ("lrq", "lrq is a module: name"),
    ],
)
def test_another_kind_of_object_is_refused(name: str, words: str):
    with pytest.raises(UsageError, match=words):
        listeners_of([Reference(APPLICATION, name)])


def test_a_failing_factory_is_told_with_its_line():
    with pytest.raises(ConfigurationError, match=r"failing_factory\(\) has failed \(worker_application.py:\d+: KeyErr"):
        listeners_of([Reference(APPLICATION, "failing_factory")])


@pytest.mark.parametrize("name", ["nothing_here", "nothing.here", "tests.nothing_here"])
def test_a_missing_module_is_refused(name: str):
    with pytest.raises(UsageError, match=r"there is no module .*nothing.* in /.* or on Python's path: correct"):
        find_object(Reference(name, "x"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing_else", r"py:1: ModuleNotFoundError: No module named 'nothing_else'\): correct it"),
        ("from os import nothing", "ImportError: cannot import name 'nothing'"),
        ("\n\n1 / 0", "py:3: ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit('bye')", "py:2: SystemExit: bye"),
        ("raise ValueError('one\\ntwo')", "py:1: ValueError: one"),
    ],
)
def test_an_error_inside_the_module_is_told_in_one_line(module, text: str, words: str):
    with pytest.raises(ConfigurationError, match=words) as refused:
        find_object(Reference(module(text), "x"))
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, LrqError)

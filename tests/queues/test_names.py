"""Names of queues and tags are built and parsed in one module, and no two queues share a name."""

import ast
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues import names
from queues.errors import InvalidNameError

ROOT = Path(__file__).parents[2]
WORDS = st.text(st.sampled_from("ab_-.%5Fé東Ωß0"), min_size=1, max_size=names.MAX_NAME_LENGTH)


def is_valid(word: str) -> bool:
    try:
        return bool(names.client_name(word))
    except InvalidNameError:
        return False


NAMES = WORDS.filter(is_valid)


@given(mine=NAMES, other=NAMES, source=NAMES)
def test_the_prefix_of_a_client_matches_only_its_own_queues(mine: str, other: str, source: str):
    queue = names.receive_queue(names.client_name(other), names.site_id(source))
    assert queue.startswith(names.receive_queue_prefix(names.client_name(mine))) == (mine == other)


@given(first=st.tuples(NAMES, NAMES), second=st.tuples(NAMES, NAMES))
def test_different_queues_have_different_names(first: tuple[str, str], second: tuple[str, str]):
    built = [names.receive_queue(names.client_name(c), names.site_id(s)) for c, s in (first, second)]
    assert (built[0] == built[1]) == (first == second)


def test_the_prefix_of_policy_does_not_match_policy_v2():
    policy, policy_v2 = names.client_name("policy"), names.client_name("policy_v2")
    assert not names.receive_queue(policy_v2, names.site_id("paris")).startswith(names.receive_queue_prefix(policy))
    assert names.receive_queue(policy, names.site_id("v2_paris")) != names.receive_queue(
        policy_v2, names.site_id("paris")
    )


def test_queues_and_tags_have_the_published_names():
    policy, paris = names.client_name("policy"), names.site_id("paris")
    assert names.SEND_LOG_ENTRIES == "LRQ_Send_LogEntries"
    assert names.SEND_SNAP_SYNC == "LRQ_Send_SnapSync"
    assert names.receive_queue(policy, paris) == "LRQ_Recv_policy_paris"
    assert names.log_entry_tag(paris) == "lrq_logentry_paris"
    assert names.snap_sync_tag(paris) == "lrq_snapsync_paris"
    assert names.receive_tag(policy) == "lrq_recv_policy"


@pytest.mark.parametrize("name", ["a", "_", "x" * names.MAX_NAME_LENGTH, "a_b-c.d", "東京", "Île-de-France", "9lives"])
def test_letters_of_any_language_are_valid_in_a_name(name: str):
    assert names.site_id(name) == name
    assert names.client_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a/b", "a,b", "a%b", "-a", ".a", "a\n", "a\0", "x" * (names.MAX_NAME_LENGTH + 1),
     unicodedata.normalize("NFD", "é"), None, 7, b"paris"],
)  # fmt: skip
def test_an_invalid_name_is_refused_with_the_rule(name: object):
    with pytest.raises(InvalidNameError, match=r"site id"):
        names.site_id(name)
    with pytest.raises(ValueError, match=r"client name"):
        names.client_name(name)


PREFIXES = ("LRQ_Send_", "LRQ_Recv_", "lrq_logentry_", "lrq_snapsync_", "lrq_recv_")


def built_names(path: Path) -> list[str]:
    """Return the strings of a module, except docstrings, that begin a queue's name or a tag."""
    tree = ast.parse(path.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose)
    return [node.value for node in strings if isinstance(node.value, str) and node.value.startswith(PREFIXES)]


def test_only_one_module_builds_names_of_queues_and_tags():
    packages = ("queues", "discovery", "sink", "lr_client", "lr_server")
    modules = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    assert {path.name for path in modules if built_names(path)} == {"names.py"}

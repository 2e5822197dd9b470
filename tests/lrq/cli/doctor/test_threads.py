"""A server with many sessions needs many threads, and a machine may allow fewer."""

import os
import resource
from pathlib import Path

import pytest

from lr_server.source import sink_connector
from lrq.cli.doctor.findings import Severity
from lrq.cli.doctor.threads import THREADED, allowed, judge


@pytest.mark.parametrize(
    ("peers", "clients", "most", "is_enough"),
    [(1_000, 1, 1_114, True), (1_000, 1, 1_113, False), (1_000, 2, 1_915, False), (3, 0, 59, True), (3, 0, 58, False)],
)
def test_a_site_whose_sessions_need_more_threads_than_are_allowed_is_warned(
    peers: int, clients: int, most: int, is_enough: bool
) -> None:
    found = list(judge(peers, clients, most))
    assert [each.level for each in found] == [Severity.WARNING] * (not is_enough)


@pytest.mark.parametrize(("most", "is_enough"), [(1_264, True), (1_263, False)])
def test_sessions_with_attached_sites_keep_their_threads(most: int, is_enough: bool) -> None:
    # 400 sessions, and two threads for each of 32 + 300 of them. The 150 sites have one each, and the server 50.
    found = list(judge(200, 2, most, attached=150))
    assert [each.level for each in found] == [Severity.WARNING] * (not is_enough)


def test_the_doctor_knows_how_many_sessions_have_threads_of_their_own() -> None:
    assert THREADED == sink_connector.THREADED


def test_a_machine_without_a_limit_is_enough_for_any_site() -> None:
    assert list(judge(1_000_000, 10, None)) == []


def test_the_lowest_limit_of_a_group_and_all_groups_above_holds(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/system.slice/lrq.service"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/system.slice/lrq.service\n")
    (group / "pids.max").write_text("max\n")
    (group.parent / "pids.max").write_text("17\n")
    assert allowed(tmp_path) == 17
    (group / "pids.max").write_text("9\n")
    assert allowed(tmp_path) == 9


def test_a_machine_without_such_files_has_the_limit_of_the_user(tmp_path: Path) -> None:
    of_user, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    is_free = os.geteuid() == 0 or of_user == resource.RLIM_INFINITY
    assert allowed(tmp_path) == (None if is_free else of_user)

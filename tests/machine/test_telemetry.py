"""Metrics from a status, one by one."""

from typing import Any

import pytest

from lr_server.telemetry import families

SESSION: dict[str, Any] = {
    "client": "policy", "destination": "tokyo", "state": "backing off", "acked_seq": 7, "stalled": True,
    "lag": {"entries": 3, "bytes": 30, "seconds": 1.5},
}  # fmt: skip
QUEUE: dict[str, Any] = {
    "client": "policy", "source": "lima", "received_seq": 9, "source_seq": 11, "received_total": 90,
    "duplicates_total": 1, "applied_total": 80, "outstanding": 10, "oldest_seconds": 2.5, "parked": 0,
    "failure": {"tries": 4, "error": "no"},
}  # fmt: skip
STATUS: dict[str, Any] = {
    "site": "paris",
    "server": {"owner": True, "troubles": {"trim": "the disk is full"}},
    "log": {"seq": 10, "trimmed_seq": 2, "waiting": 5},
    "sessions": [SESSION],
    "snapshots": [],
    "receive_queues": [QUEUE],
}


def samples(status: dict[str, Any]) -> dict[tuple[str, ...], float]:
    """Return the value of each sample by its name and its labels without the site."""
    return {
        (each.name, *(value for label, value in each.labels.items() if label != "site")): each.value
        for family in families(status)
        for each in family.samples
    }


@pytest.mark.parametrize(
    ("sample", "value"),
    [
        (("lrq_owner",), 1),
        (("lrq_troubles",), 1),
        (("lrq_log_seq",), 10),
        (("lrq_log_trimmed_seq",), 2),
        (("lrq_log_waiting_entries",), 5),
        (("lrq_session_acked_seq", "policy", "tokyo"), 7),
        (("lrq_session_lag_entries", "policy", "tokyo"), 3),
        (("lrq_session_lag_bytes", "policy", "tokyo"), 30),
        (("lrq_session_lag_seconds", "policy", "tokyo"), 1.5),
        (("lrq_session_stalled", "policy", "tokyo"), 1),
        (("lrq_session_state", "policy", "tokyo", "backing off"), 1),
        (("lrq_receive_received_seq", "policy", "lima"), 9),
        (("lrq_receive_source_seq", "policy", "lima"), 11),
        (("lrq_receive_received_total", "policy", "lima"), 90),
        (("lrq_receive_duplicates_total", "policy", "lima"), 1),
        (("lrq_receive_applied_total", "policy", "lima"), 80),
        (("lrq_receive_outstanding_entries", "policy", "lima"), 10),
        (("lrq_receive_oldest_seconds", "policy", "lima"), 2.5),
        (("lrq_receive_parked_entries", "policy", "lima"), 0),
        (("lrq_receive_refused_tries", "policy", "lima"), 4),
    ],
)
def test_a_fact_is_a_sample(sample, value):
    assert samples(STATUS)[sample] == value


def test_every_sample_names_its_site():
    assert {each.labels["site"] for family in families(STATUS) for each in family.samples} == {"paris"}


def test_of_the_requests_for_a_snapshot_the_newest_counts():
    asked = [{"client": "policy", "destination": "tokyo", "state": state} for state in ("building", "failed")]
    found = samples(STATUS | {"snapshots": asked})
    assert [sample for sample in found if sample[0] == "lrq_snapshot_state"] == [
        ("lrq_snapshot_state", "policy", "tokyo", "building")
    ]


def test_a_listener_that_does_not_fail_has_no_tries():
    found = samples(STATUS | {"receive_queues": [QUEUE | {"failure": None}]})
    assert found["lrq_receive_refused_tries", "policy", "lima"] == 0

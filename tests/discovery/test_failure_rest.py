"""The rest of a server after a failure."""

from discovery.failure_rest import FailureRest


def test_a_rest_lasts_one_lease_and_doubles_with_each_failure_in_a_row():
    rest = FailureRest(10.0, now=0.0)
    assert rest.is_over(0.0)
    now, seconds = 0.0, []
    for _ in range(7):
        seconds.append(rest.begin(now))
        assert not rest.is_over(now + seconds[-1] - 0.1)
        now += seconds[-1]
        assert rest.is_over(now)
    assert seconds == [10, 20, 40, 80, 160, 300, 300]


def test_long_work_ends_the_row_of_failures():
    rest = FailureRest(10.0, now=0.0)
    assert (rest.begin(0.0), rest.begin(10.0), rest.begin(30.0 + 301.0)) == (10, 20, 10)

"""Only the first failure of a row of equal ones is new."""

from queues.repeats import Repeats


def failure(kind: type[Exception], text: str) -> Exception:
    try:
        raise kind(text)
    except Exception as error:  # noqa: BLE001 - the tests need its traceback
        return error


def test_the_same_failure_is_first_once_even_with_other_words():
    repeats = Repeats()
    assert repeats.is_first("tokyo", failure(ValueError, "at 12:00"))
    assert not repeats.is_first("tokyo", failure(ValueError, "at 12:01"))
    assert repeats.is_first("tokyo", failure(KeyError, "at 12:02"))
    assert not repeats.is_first("tokyo", failure(ValueError, "at 12:03"))


def test_each_work_has_its_own_failures():
    repeats = Repeats()
    assert repeats.is_first("tokyo", failure(ValueError, ""))
    assert repeats.is_first("lima", failure(ValueError, ""))


def test_after_a_success_the_failure_is_first_again():
    repeats = Repeats()
    assert repeats.is_first("tokyo", failure(ValueError, ""))
    repeats.forget("tokyo")
    assert repeats.is_first("tokyo", failure(ValueError, ""))


def test_the_memory_of_different_failures_is_bounded():
    repeats = Repeats()
    kinds = [type(f"Failure{n}", (Exception,), {}) for n in range(100)]
    assert all(repeats.is_first("tokyo", failure(kind, "")) for kind in kinds)
    assert repeats.is_first("tokyo", failure(kinds[0], ""))

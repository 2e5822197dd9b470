"""The ring of tokens, with the numbers of Polar Streams, gocql and Cassandra."""

import itertools

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.ring import FIRST, Ring, _final, _rotated, _signed_tail, token

SIZES = [3 * 2**n for n in range(13)]
LOREM = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore "
    "magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation ullamco laboris nisi ut aliquip ex ea commodo "
    "consequat. Duis aute irure dolor in reprehenderit in voluptate velit esse cillum dolore eu fugiat nulla pariatur. "
    "Excepteur sint occaecat cupidatat non proident, sunt in culpa qui officia deserunt mollit anim id est laborum."
)
# The first n characters of "01234567890123..." for each n: every length of the tail.
SERIES = [
    0x0000000000000000, 0x2AC9DEBED546A380, 0x649E4EAA7FC1708E, 0xCE68F60D7C353BDB, 0x0F95757CE7F38254,
    0x0F04E459497F3FC1, 0x88C0A92586BE0A27, 0x13EB9FB82606F7A6, 0x8236039B7387354D, 0x4C1E87519FE738BA,
    0x3F9652AC3EFFEB24, 0x3F33760DED9006C6, 0xAED70A6631854CB1, 0x8A299A8F8E0E2DA7, 0x624B675C779249A6,
    0xA4B203BB1D90B9A3, 0xA3293AD698ECB99A, 0xBC740023DBD50048, 0x3FE5AB9837D25CDD, 0x2D0338C1CA87D132,
]  # fmt: skip


def signed(number: int) -> int:
    return number - 2**64 if number >> 63 else number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abcd", -5153323217664422577),
        ("wxyz", 6541399000449243469),
        ("mmmm", 1406774400723249678),
        ("Hashing a value", 3002999691413861203),
        (LOREM, 3329387957440342626),
        ("hello", signed(0xCBD8A7B341BD9B02)),
        ("hello, world", 0x342FAC623A5EBC8E),
        ("19 Jan 2038 at 3:14:07 AM", signed(0xB89E5988B737AFFC)),
        ("The quick brown fox jumps over the lazy dog.", signed(0xCD99481F9EE902C9)),
        *((("0123456789" * 2)[:length], signed(found)) for length, found in enumerate(SERIES)),
    ],
)
def test_a_token_equals_the_one_of_other_programs(text: str, expected: int):
    assert token(text) == token(text.encode()) == _signed_tail(text.encode()) == expected


def test_bytes_of_the_tail_count_as_signed():
    key = bytes.fromhex("00104327529fb645dd00b883ec39ae448bb800000400066a6b00")
    assert token(key) == -9223371632693506265
    assert token(key) != mmh3.hash64(key)[0], "the library alone is not the variant"
    assert token(bytes(index % 256 for index in range(1024))) == 7627370222079200297


@given(st.binary(max_size=80))
def test_the_library_and_the_own_code_agree_unless_the_tail_has_a_signed_byte(key: bytes):
    assert token(key) == _signed_tail(key)
    if key[len(key) // 16 * 16 :].isascii():
        assert token(key) == mmh3.hash64(key)[0]
    assert FIRST <= token(key) < -FIRST


@pytest.mark.parametrize(
    ("number", "turn", "expected"),
    [
        (123456789, 33, 1060485742448345088),
        (-123456789, 33, -1060485733858410497),
        (-12345678987654, 33, 1756681988166642059),
        (7210216203459776512, 31, -4287945813905642825),
        (-6486402271863858009, 31, 405973038345868736),
    ],
)
def test_a_rotation_keeps_all_bits(number: int, turn: int, expected: int):
    assert signed(_rotated(number % 2**64, turn)) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (123456789, -8107560010088384378),
        (-123456789, -5252787026298255965),
        (-12345678987654, -1122383578793231303),
        (-1241537367799374202, 3388197556095096266),
        (-7566534940689533355, 4729783097411765989),
    ],
)
def test_the_last_step_of_the_hash(number: int, expected: int):
    assert signed(_final(number % 2**64)) == expected


def test_the_ring_begins_at_the_lowest_token_and_wraps_around():
    six = Ring(6)
    assert six.token_at(0) == six.token_at(6) == FIRST
    assert six.token_at(7) == six.token_at(1)
    assert six.token_at(3) == 0, "there -2048"


@pytest.mark.parametrize("size", SIZES)
def test_the_places_cover_the_ring_and_differ_by_one_token_at_most(size: int):
    starts = [*map(Ring(size).token_at, range(size)), -FIRST]
    lengths = {after - before for before, after in itertools.pairwise(starts)}
    assert starts[0] == FIRST
    assert max(lengths) - min(lengths) <= 1
    largest = SIZES[-1]
    unit = (2**64 - 1) // largest * (largest // size)
    assert all(abs(start - (FIRST + unit * place)) <= largest for place, start in enumerate(starts[:-1]))


@pytest.mark.parametrize("size", SIZES)
def test_a_place_leads_from_its_token_to_before_the_next(size: int):
    whole = Ring(size)
    for place in {0, 1, 2, size // 2, size - 1}:
        first = whole.token_at(place)
        assert whole.place(first) == place
        before = first - 1 if place else -FIRST - 1
        assert whole.place(before) == (place - 1) % size


@pytest.mark.parametrize("size", SIZES[:-1])
def test_a_larger_ring_moves_no_token(size: int):
    assert [Ring(2 * size).token_at(2 * place) for place in range(size)] == [*map(Ring(size).token_at, range(size))]


@given(st.integers(FIRST, -FIRST - 1), st.sampled_from(SIZES[:-1]))
def test_a_doubled_ring_halves_each_place(at: int, size: int):
    assert Ring(2 * size).place(at) // 2 == Ring(size).place(at)


@pytest.mark.parametrize("size", [3, 6, 12])
def test_the_followers_of_a_token_are_the_next_two_places(size: int):
    whole = Ring(size)
    for place in range(size):
        assert whole.followers(whole.token_at(place)) == ((place + 1) % size, (place + 2) % size)
    assert Ring(3).followers(-FIRST - 1) == (0, 1)


@given(st.text(max_size=40), st.sampled_from(SIZES))
def test_the_owner_of_a_key_leads_the_key_s_token(key: str, size: int):
    whole, at = Ring(size), token(key)
    owner = whole.owner(key)
    end = whole.token_at(owner + 1) if owner + 1 < size else -FIRST
    assert whole.token_at(owner) <= at < end
    assert owner not in whole.followers(at)


def test_any_number_of_equal_parts_is_a_ring_of_ranges():
    for size in range(1, 100):
        assert [Ring(size).place(Ring(size).token_at(place)) for place in range(size)] == [*range(size)]

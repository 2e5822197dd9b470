"""A box has limits, keeps the order, and loses further items while it is full."""

import threading

from lr_server.ring.parcel_box import ParcelBox


def test_items_come_out_in_their_order_up_to_a_number():
    box: ParcelBox[int] = ParcelBox(items=2)
    assert [box.put(number) for number in range(3)] == [True, True, False]
    assert [box.get(0), box.get(0), box.get(0)] == [0, 1, None]
    assert box.put(3)


def test_the_bytes_of_all_items_have_a_limit_that_one_item_may_exceed():
    box: ParcelBox[str] = ParcelBox(size=10)
    assert box.put("large", 50)
    assert not box.put("small", 1)
    assert box.get(0) == "large"
    assert [box.put("a", 6), box.put("b", 5), box.put("c", 4)] == [True, False, True]
    box.clear()
    assert box.put("d", 10)


def test_a_closed_box_returns_the_items_that_still_wait():
    box: ParcelBox[int] = ParcelBox()
    assert box.put(1)
    assert box.put(2)
    assert box.close() == [1, 2]
    assert box.close() == []


def test_a_closed_box_takes_nothing_and_ends_each_wait():
    box: ParcelBox[int] = ParcelBox()
    found: list[int | None] = []
    waiting = threading.Thread(target=lambda: found.append(box.get(600)))
    waiting.start()
    box.close()
    waiting.join(60)
    assert found == [None]
    assert not box.put(1)

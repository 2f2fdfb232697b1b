"""Users and their native threads."""

from harness.load.seats import Seats


def test_the_thread_of_a_user_that_left_serves_the_next_one():
    seats = Seats()
    first, second = seats.take(), seats.take()
    of_first, of_second = seats.threads
    seats.leave(first)
    third = seats.take()
    assert seats.threads == [of_second, of_first]
    seats.replace(of_second)
    assert seats.threads[0] is not of_second
    for ordinal in (second, third):
        seats.leave(ordinal)
    assert seats.threads == []

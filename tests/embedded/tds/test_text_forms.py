"""Dates, times and identifiers converted between their wire forms and text."""

from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.tds.text_forms import datetime_to_text, guid_to_bytes, guid_to_text, text_to_datetime


@given(st.integers(-53690, 2958463), st.integers(0, 25_919_999))
def test_datetime_keeps_its_tick(days, ticks):
    assert text_to_datetime(datetime_to_text(days, ticks)) == (days, ticks)


def test_datetime_shows_milliseconds_as_sql_server_does():
    # A three-hundredth of a second is 3.33 ms: the manual's .000, .003, .007.
    assert [datetime_to_text(0, ticks)[-3:] for ticks in range(4)] == ["000", "003", "007", "010"]


@given(st.binary(min_size=16, max_size=16))
def test_a_guid_is_decoded_as_it_was_encoded(value):
    assert guid_to_bytes(guid_to_text(value)) == value


def test_the_first_three_groups_of_a_guid_are_little_endian():
    assert guid_to_bytes("01B241A8-4CDE-45ED-9CC6-EAA548A341F3").hex() == "a841b201de4ced459cc6eaa548a341f3"

"""The XML of an event notification, which anybody may have written who may send to the service."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.activator.event import BYTES_MAX, Activation, NotAnEvent, parse
from tests.examples import share

# Of a real SQL Server.
TEXT = (
    "<EVENT_INSTANCE><EventType>QUEUE_ACTIVATION</EventType><PostTime>2016-09-08T10:01:06.363</PostTime><SPID>30</SPID>"
    "<ServerName>SRV</ServerName><LoginName>sa</LoginName><UserName>dbo</UserName><DatabaseName>A &amp; B</DatabaseName>"
    "<SchemaName>dbo</SchemaName><ObjectName>queue</ObjectName><ObjectType>QUEUE</ObjectType></EVENT_INSTANCE>"
)


@pytest.mark.parametrize(
    "body", [TEXT.encode("utf-16"), TEXT.encode("utf-16-le"), f'<?xml version="1.0" encoding="utf-7"?>{TEXT}'.encode()]
)
def test_an_event_names_the_queue_and_its_moment(body):
    assert parse(body) == Activation("A & B", "dbo.queue", "2016-09-08T10:01:06.363")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not XML"),
        ("<EVENT_INSTANCE>", "not XML"),
        (TEXT.replace("QUEUE_ACTIVATION", "BROKER_QUEUE_DISABLED"), "its event is 'BROKER_QUEUE_DISABLED'"),
        (TEXT.replace("PostTime", "Other"), "no PostTime"),
        ('<!DOCTYPE x [<!ENTITY a "b">]>' + TEXT.replace("SRV", "&a;"), "DOCTYPE"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd">' + TEXT, "DOCTYPE"),
        (TEXT + " " * BYTES_MAX, "more than"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(text, reason):
    with pytest.raises(NotAnEvent, match=reason):
        parse(text.encode())


@settings(max_examples=share(150))
@given(st.binary() | st.text("<>/?!EVNT& \0\ufeff\ud800").map(lambda text: text.encode("utf-16-le", "surrogatepass")))
def test_any_bytes_are_an_event_or_refused(body):
    with pytest.raises(NotAnEvent):
        parse(body)

"""Messages between the sweep's process and its Locust processes."""

import msgspec
import pytest

from harness.definitions.load_model import OpenLoop
from harness.files.message_bodies import Bodies
from harness.load import messages
from harness.load.plan import SEND_MESSAGE, GeneratorHealth, Share

MESSAGES = [
    messages.Done(),
    messages.Failed("thread 3: no such login"),
    messages.StartUsers({"a": 50, "b": 2}),
    messages.Prepare(
        "i1-t1-r1-p100-v2008", 2, 1, Share(3, 2, 4), 7, 100, SEND_MESSAGE, None, True, "SERVER=x", ["0-1"], 60.0, None
    ),
    messages.Prepare(
        *(
            "i1-t1-r1-p100-v2008",
            2,
            1,
            Share(3),
            7,
            100,
            SEND_MESSAGE,
            Bodies("{}", (32, 100)),
            False,
            "SERVER=x",
            ["0-1"],
            60.0,
        ),
        OpenLoop(0.5, "poisson", 3),
    ),
    messages.Stopped(1, 2, [5, 6], [("no", 1)], ["thread 1: why"], GeneratorHealth(1, 40.0, 2.0, 0.99, 3.5), 1000),
    messages.WorkerProgress(1, 2, 3, 4, 5.0),
    messages.WorkerProgress(1, 2, 3, 4),
    messages.MakeReady(messages.WebScenario(3, 50, 1, 8192)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent_on_one_line(message):
    line = messages.encode(message, 5)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert messages.decode(line) == (5, message)


def test_a_field_of_another_type_is_refused():
    with pytest.raises(msgspec.ValidationError, match="users"):
        messages.decode(messages.encode(messages.StartUsers({"a": "many"})))


GOOD = {"initiators": "3", "threads": "50", "dialog_ratio": "1", "payload_bytes": "8192"}


def test_a_form_becomes_a_scenario():
    assert messages.WebScenario.from_form(
        GOOD | {"user_count": "0", "host": "embedded lab"}, 3
    ) == messages.WebScenario(3, 50, 1, 8192)


def test_fields_left_out_have_the_forms_defaults():
    assert messages.WebScenario.from_form({}, 3) == messages.WebScenario()


def test_a_form_may_have_any_value_that_a_cell_may_have():
    form = {"initiators": "5", "threads": "500", "dialog_ratio": "300", "payload_bytes": "4 KB"}
    assert messages.WebScenario.from_form(form, 5) == messages.WebScenario(5, 500, 300, 4096)


def test_the_load_model_of_a_form_says_whether_its_rate_counts():
    assert messages.WebScenario.from_form({"load_model": "closed loop", "rate": "20/s"}, 1).rate_per_s is None
    assert messages.WebScenario.from_form({"load_model": "open loop", "rate": "20/s"}, 1).rate_per_s == 20
    with pytest.raises(messages.BadScenario, match="an open loop needs a rate of each initiator, such as 500/s"):
        messages.WebScenario.from_form({"load_model": "open loop", "rate": " "}, 1)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("threads", "1001", "threads '1001' is not valid: 1 to 1,000"),
        ("threads", "0", "threads '0' is not valid: 1 to 1,000"),
        ("threads", "many", "threads 'many' is not valid: 1 to 1,000"),
        ("threads", "", "threads '' is not valid: 1 to 1,000"),
        ("initiators", "6", "initiators '6' is not valid: 1 to 5"),
        ("dialog_ratio", "0", "dialog ratio '0' is not valid: 1 to 1,000"),
        ("rate", "fast", "invalid rate 'fast': write 500/s or 30/min"),
        ("rate", "0/s", "rate '0/s' is not valid: up to 60,000/s; empty: closed loop"),
        ("payload_bytes", "31", "payload bytes '31' is not valid: 32 to 1,048,576"),
        ("payload_bytes", "2 MB", "payload bytes '2 MB' is not valid: 32 to 1,048,576"),
    ],
)
def test_a_wrong_field_is_named_with_what_it_may_be(name, value, message):
    with pytest.raises(messages.BadScenario) as error:
        messages.WebScenario.from_form(GOOD | {name: value}, 5)
    assert str(error.value) == message


def test_a_scenario_reads_as_a_sentence():
    words = messages.WebScenario().words(payload_is_mean=False)
    assert words == "1 initiator × 10 threads, every 150th dialog, 100 bytes, closed loop"
    scenario = messages.WebScenario(3, 2, 1, 4096, "30/min")
    words = scenario.words(payload_is_mean=True)
    assert words == "3 initiators × 2 threads, every dialog, 4,096 bytes on average, open loop, 30/min per initiator"
    words = messages.WebScenario(threads=1, rate="500").words(payload_is_mean=False)
    assert words == "1 initiator × 1 thread, every 150th dialog, 100 bytes, open loop, 500/s"
    assert scenario.rate_per_s == 0.5 and messages.WebScenario().rate_per_s is None

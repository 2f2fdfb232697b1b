"""Messages between the sweep's process and its Locust processes."""

import pytest

from harness.load.health import GeneratorHealth
from harness.load.messages import (
    Done,
    Failed,
    MakeReady,
    Prepare,
    StartUsers,
    Stopped,
    WorkerProgress,
    decode,
    encode,
)
from harness.load.plan import SEND_MESSAGE
from harness.load.web_scenario import WebScenario

MESSAGES = [
    Done(),
    Failed("thread 3: no such login"),
    StartUsers(["a", "b"], 50),
    Prepare("i1-t1-r1-p100-v2008", 1, 7, 100, SEND_MESSAGE, None, "SERVER=x", ["0-1"], 60.0),
    Stopped(1, 2, [5, 6], [("no", 1)], ["thread 1: why"], GeneratorHealth(1, 40.0, 2.0, 0.99, 5.0)),
    WorkerProgress(1, 2, 3, 4, 5.0, GeneratorHealth(1, 40.0, 2.0, 0.99, 5.0)),
    WorkerProgress(1, 2, 3, 4),
    MakeReady(WebScenario(3, 50, 1, 8192)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent_on_one_line(message):
    line = encode(message, 5)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decode(line) == (5, message)


def test_a_field_of_another_type_is_refused():
    with pytest.raises(ValueError, match="threads"):
        decode(encode(StartUsers(["a"], "many")))

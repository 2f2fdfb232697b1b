"""A Locust test without a run: users that come and go, against the echo server in place of a lab."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest
from locust import argument_parser
from locust.env import Environment

from harness.load import ui
from harness.load.alone import Alone
from harness.load.locust_process import TestClient
from harness.load.messages import WebScenario
from harness.load.own_options import add_options
from harness.load.plan import SEND_MESSAGE, CellPlan, Sending
from tests.load.echo_server import EchoServer, handles

pytestmark = pytest.mark.process


class EchoStage:
    """Stands in for a lab of three initiators, all of which are the echo server."""

    def __init__(self, echo: EchoServer) -> None:
        self._echo = echo
        self.database = "Echo"
        self.run = 0

    def make_ready(self, scenario: WebScenario, run: int, tell: ui.Tell) -> CellPlan:
        self.run = 7000 + run
        strings = [self._echo.connection_string(self.database)] * scenario.initiators
        sending = Sending(SEND_MESSAGE, [handles(scenario.threads)] * scenario.initiators)
        return ui.plan_of(scenario, self.run, "2008", strings, sending, None)


class Test:
    """An environment as Locust's command makes it."""

    __test__ = False

    def __init__(self, stage: EchoStage, *words: str) -> None:
        self.environment = Environment(user_classes=[TestClient])
        parser = argument_parser.get_parser(default_config_files=[])
        add_options(parser)
        self.options = self.environment.parsed_options = parser.parse_args(["--initiators", "2", *words])
        self.runner = self.environment.create_local_runner()

        def opened(alone: Any) -> EchoStage:
            alone._initiators_max = 3
            return stage

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Alone, "_opened", opened)
            self.alone = Alone(self.environment, self.runner)

    @property
    def requests(self) -> int:
        return int(self.environment.stats.get(SEND_MESSAGE.procedure, "CALL").num_requests)

    @property
    def errors(self) -> list[tuple[str, int]]:
        return [(str(error.error), error.occurrences) for error in self.environment.stats.errors.values()]

    def start(self, users: int) -> None:
        self.runner.start(users, spawn_rate=100)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with gevent.Timeout(60):
            while not condition():
                gevent.sleep(0.01)


@pytest.fixture
def stage(echo: EchoServer) -> EchoStage:
    return EchoStage(echo)


@pytest.fixture
def test(stage: EchoStage) -> Iterator[Test]:
    test = Test(stage)
    yield test
    test.runner.quit()


def seats(test: Test) -> set[tuple[int, int]]:
    """Initiator and thread of each user that sends."""
    return {(seat.run.initiator, seat.thread.number) for seat in test.alone._seats.values() if seat}


def test_users_come_and_go_and_locust_counts_what_the_server_got(
    test: Test, stage: EchoStage, echo: EchoServer
) -> None:
    test.start(4)
    test.wait_for(lambda: seats(test) == {(1, 1), (2, 1), (1, 2), (2, 2)} and test.requests > 100)
    test.start(1)
    test.wait_for(lambda: len(seats(test)) == 1 and not test.alone._leaving)
    sent = test.requests
    test.start(3)
    test.wait_for(lambda: len(seats(test)) == 3 and test.requests > sent)
    test.runner.stop()
    assert not test.alone._leaving and test.errors == []
    received = [entry["messages"] for key, entry in echo.received().items() if key.startswith(f"{stage.run}/")]
    assert test.requests == sum(received)


def test_the_run_time_begins_when_the_dialogs_have(stage: EchoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.2

    def block(scenario: WebScenario, run: int, tell: ui.Tell) -> CellPlan:
        time.sleep(seconds)  # as connections of the driver do
        return EchoStage.make_ready(stage, scenario, run, tell)

    monkeypatch.setattr(stage, "make_ready", block)
    test = Test(stage, "--headless")
    began = time.monotonic()
    gevent.spawn_later(seconds, lambda: None).join()  # as Locust does with --run-time
    assert time.monotonic() - began > seconds / 2
    test.runner.quit()


def test_more_users_than_the_test_began_with_are_failures_that_say_what_to_do(test: Test) -> None:
    test.start(2)
    test.wait_for(lambda: len(seats(test)) == 2)
    test.start(3)
    test.wait_for(lambda: bool(test.errors))
    assert test.errors == [("there are dialogs for as many users as the test began with: stop it, and start anew", 1)]


def test_a_login_that_fails_and_a_wrong_field_are_failures_of_each_user(test: Test, stage: EchoStage) -> None:
    stage.database = "Refuse"
    test.start(2)
    test.wait_for(lambda: sum(count for _, count in test.errors) == 2)
    assert all("Login failed for user 'sa'" in text for text, _ in test.errors)
    test.runner.stop()
    test.options.initiators = "4"
    test.start(1)
    test.wait_for(lambda: test.errors == [("initiators '4' is not valid: 1 to 3", 1)])

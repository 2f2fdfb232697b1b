"""Timers of a real instance whose wall clock is set, and whose machine is suspended."""

import contextlib
import json
import os
import sys
from subprocess import PIPE

import pyodbc
import pytest

from harness.lab import drivers
from tests.processes import Child
from tests.stand_ins import clocks
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not clocks.IS_AVAILABLE, reason="the clocks of a process are set with a library that gcc makes"),
]
PASSWORD = "Realtime!1"
HOUR_S = 3600
SETUP = "CREATE DATABASE d", "USE d", "CREATE QUEUE q", "CREATE SERVICE s ON QUEUE q ([DEFAULT])"
BEGIN = (
    "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF{0}; {1}SELECT @h"
)


@pytest.fixture
def moved(tmp_path):
    return clocks.Clocks(tmp_path)


@pytest.fixture
def connect(moved, tmp_path):
    """Open connections to an instance with these clocks."""
    command = [sys.executable, "-m", "harness", "serve", "--port", "0", "--data", str(tmp_path / "data"), "--throwaway"]
    environment = {**os.environ, **moved.environment, "HARNESS_PASSWORD": PASSWORD}
    with contextlib.ExitStack() as opened:
        process = opened.enter_context(Child(command, env=environment, stdout=PIPE))
        text = drivers.choose("microsoft").connection_string(
            host="127.0.0.1",
            port=json.loads(process.stdout.readline())["port"],
            user="sa",
            password=PASSWORD,
            database="master",
            program="tests",
        )
        yield lambda: opened.enter_context(contextlib.closing(pyodbc.connect(text, autocommit=True, timeout=60)))


def test_timers_and_lifetimes_follow_time_that_passes_and_a_wall_clock_that_is_set_forward(moved, connect):
    connection = connect()
    for statement in SETUP:
        connection.execute(statement)

    def begin(options="", then=""):
        return connection.execute(BEGIN.format(options, then)).fetchval()

    def expired(*handles):
        kinds = {
            row.conversation_handle: row.message_type_name.rpartition("/")[2]
            for row in connection.execute("SELECT conversation_handle, message_type_name FROM q")
        }
        return [kinds.get(handle) for handle in handles]

    timer = "BEGIN CONVERSATION TIMER (@h) TIMEOUT = {0}; ".format
    soon, in_an_hour, later = begin(then=timer(2)), begin(then=timer(HOUR_S)), begin(then=timer(3 * HOUR_S))
    short_lived = begin(f", LIFETIME = {HOUR_S}")
    moved.step_wall(-HOUR_S)
    wait_until(lambda: expired(soon) == ["DialogTimer"], 30)
    assert expired(in_an_hour, short_lived) == [None, None]
    moved.step_wall(2.1 * HOUR_S)
    wait_until(lambda: expired(in_an_hour, short_lived) == ["DialogTimer", "Error"], 30)
    assert expired(later) == [None]
    moved.step_wall(-3 * HOUR_S)  # so that the wall clock does not show for how long the machine was suspended
    moved.suspend(3 * HOUR_S)
    wait_until(lambda: expired(later) == ["DialogTimer"], 30)

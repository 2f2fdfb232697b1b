"""The server's own log: no line is forged, none is endless, and a flood is counted."""

import io
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.server import log as server_log
from harness.embedded.server.log import LINE_MAX, RECORDS_MAX, WINDOW_S, FloodFilter, LineFormatter
from harness.output.safe_text import one_line


class Log:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.stream = io.StringIO()
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(LineFormatter())
        self.flood = FloodFilter(lambda: self.now_s)
        handler.addFilter(self.flood)
        self.logger = logging.Logger("server")
        self.logger.addHandler(handler)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log() -> Log:
    return Log()


@given(st.text(st.characters()))
def test_any_text_is_one_printable_line_of_bounded_length(text):
    line = one_line(text, 50)
    assert len(line.splitlines()) <= 1 and len(line) <= 50 * 10 + 40
    assert line.encode("utf-8").decode("utf-8") == line


def test_a_value_from_a_client_forges_no_line_and_is_cut(log):
    forged = "x\r\n2026-01-01 00:00:00,000 INFO server: login of 'sa' accepted\x1b[2K\u2028" + "y" * 100_000
    log.logger.warning("login of %s refused", forged)
    [line] = log.lines
    assert r"x\r\n2026" in line and r"\u001b" in line and len(line) < LINE_MAX + 200


def test_the_lines_of_a_traceback_are_indented_and_bounded(log):
    try:
        raise ValueError("a\n2026-01-01 00:00:00,000 INFO server: forged\n" + "b\n" * 10_000)
    except ValueError:
        log.logger.exception("failed")
    first, *rest = log.lines
    assert first.endswith("failed") and all(line.startswith("    ") for line in rest)
    assert len(rest) <= server_log.TRACEBACK_LINES_MAX + 1


def test_a_flood_is_a_count_and_other_places_are_heard(log):
    def refuse(number: int) -> None:
        log.logger.warning("login %d refused", number)

    for number in range(5_000):
        refuse(number)
    log.logger.warning("something else")
    assert len(log.lines) == RECORDS_MAX + 1 and log.flood.hidden() == 5_000 - RECORDS_MAX
    for minute in range(1, 61):
        log.now_s = minute * WINDOW_S
        for number in range(100):
            refuse(number)
    assert len(log.lines) == RECORDS_MAX + 1 + 60
    assert "(4990 more like this were not logged)" in log.lines[RECORDS_MAX + 1]
    assert "(99 more like this were not logged)" in log.lines[-1]
    log.now_s += 10 * WINDOW_S
    refuse(1)
    log.now_s += WINDOW_S
    before = len(log.lines)
    for number in range(5):
        refuse(number)
    assert len(log.lines) == before + 5, "after a quiet minute each is a line again"


def test_the_same_defect_is_counted_and_another_one_is_shown(log):
    def fail(how) -> None:
        try:
            how()
        except Exception:
            log.logger.exception("a request failed")

    for _ in range(100):
        fail(lambda: 1 / 0)
    fail(lambda: {}["key"])
    assert sum("ZeroDivisionError" in line for line in log.lines) == RECORDS_MAX
    assert any("KeyError" in line for line in log.lines)

"""A Locust process's end of its pipes."""

import logging
import os

import gevent
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.load import messages
from harness.load.locust_process import Pipe, VisibleRecord
from tests.unsafe import EVERY, unsafe_in


@pytest.fixture
def pipe(monkeypatch):
    """A pipe whose messages to the parent are kept in `sent`."""
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    pipe = Pipe()
    pipe.sent = []
    monkeypatch.setattr(pipe, "tell", lambda message, number=0: pipe.sent.append((number, message)))
    return pipe


def serve(pipe, monkeypatch, handlers, *lines):
    """Serve these lines to their end, and every greenlet that they start."""
    monkeypatch.setattr(pipe, "_input", iter(b"\t" + line for line in lines))
    monkeypatch.setattr(os, "_exit", lambda code: None)
    pipe.serve(handlers, lambda worker, line: None)
    gevent.sleep(0)


def test_an_order_is_answered_under_its_number(pipe, monkeypatch):
    serve(
        pipe,
        monkeypatch,
        {messages.Stop: lambda order: messages.Failed(f"waited {order.timeout_s:g} s")},
        messages.encode(messages.Stop(2.0), 8),
    )
    assert pipe.sent == [(8, messages.Failed("waited 2 s"))]


def test_an_exception_of_a_handler_is_its_answer(pipe, monkeypatch):
    def fail(order):
        raise RuntimeError("thread 3: no such login")

    serve(pipe, monkeypatch, {messages.Stop: fail}, messages.encode(messages.Stop(1.0), 8))
    assert pipe.sent == [(8, messages.Failed("thread 3: no such login"))]


def test_a_request_gets_the_answer_of_its_number(pipe, monkeypatch):
    asking = gevent.spawn(pipe.ask, messages.BeginScenario(), timeout_s=60)
    gevent.sleep(0)
    [(number, message)] = pipe.sent
    assert message == messages.BeginScenario()
    serve(
        pipe,
        monkeypatch,
        {},
        messages.encode(messages.Ended(["another's"]), number + 1),
        messages.encode(messages.Done(), number),
    )
    assert asking.get(timeout=60) == messages.Done()


def test_a_failed_request_raises_the_reason(pipe, monkeypatch):
    asking = gevent.spawn(pipe.ask, messages.BeginScenario(), timeout_s=60)
    gevent.sleep(0)
    serve(pipe, monkeypatch, {}, messages.encode(messages.Failed("no echo"), pipe.sent[0][0]))
    with pytest.raises(RuntimeError, match="no echo"):
        asking.get(timeout=60)


def test_no_answer_in_time_is_a_timeout(pipe):
    with pytest.raises(gevent.Timeout):
        pipe.ask(messages.BeginScenario(), timeout_s=0.01)


@given(st.text(st.one_of(st.sampled_from(EVERY), st.characters())))
def test_lines_of_locusts_logs_have_no_escape_sequences(text):
    try:
        raise ValueError(text)
    except ValueError as error:
        record = VisibleRecord("name", logging.ERROR, "path", 1, "failed: %s", (text,), (ValueError, error, None))
    assert unsafe_in(logging.Formatter().format(record), besides="\n") == []

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from harness.lab import interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_swallowed_interrupt_is_raised_at_the_next_check(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), interruption.noted():
        interruption.check()
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        interruption.check()
        pytest.fail("the interrupt got lost")


def test_an_interrupt_swallowed_in_the_last_step_is_raised_at_the_end() -> None:
    with pytest.raises(KeyboardInterrupt), interruption.noted(), contextlib.suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_the_handlers_are_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interruption.noted():
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before

"""sp_getapplock: exclusive locks that sessions hold."""

from __future__ import annotations

import pytest

from tests.embedded.tsql.sides import Results

TAKE = """
DECLARE @status int;
EXECUTE @status = sp_getapplock @Resource = N'r', @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = {};
SELECT @status;
"""


def test_a_second_session_gets_a_lock_only_when_the_first_has_ended(side):
    assert side.rows(TAKE.format(0)) == [(0,)]
    assert side.rows(TAKE.format(0)) == [(0,)]  # its own
    other = side.connect("db")
    assert side.rows(TAKE.format(0), other) == [(-1,)]
    assert side.rows(TAKE.format(50), other) == [(-1,)]
    assert side.rows(TAKE.format(0), side.connect("master")) == [(0,)]  # another database's
    waiting = Results()
    side.scheduler.spawn(other.batch(TAKE.format(-1), waiting), "other")
    side.world.run_for(1)
    side.session.close()
    side.world.run_for(1)
    assert waiting.sets[-1][1] == [(1,)]


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ("@LockMode = 'Exclusive', @LockOwner = 'Session'", 201),
        ("@Resource = N'r', @LockMode = 'Exclusive'", 50001),
        ("@Resource = N'r', @LockMode = 'Shared', @LockOwner = 'Session'", 50001),
        ("@Resource = N'r', @LockMode = 'Exclusive', @LockOwner = 'Session', @DbPrincipal = 'dbo'", 50001),
    ],
)
def test_other_kinds_of_locks_are_refused(side, arguments, number):
    assert side.error(f"EXECUTE sp_getapplock {arguments}").number == number

"""sp_getapplock and sp_releaseapplock: locks of sessions and transactions, in all modes."""

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
    assert side.error(TAKE.format("N'soon'")).number == 245
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


def take(mode: str, owner: str) -> str:
    return TAKE.format(0).replace("Exclusive", mode).replace("'Session'", f"'{owner}'")


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("held", "allowed"),
    [
        ("IntentShared", "IntentShared IntentExclusive Shared Update"),
        ("IntentExclusive", "IntentShared IntentExclusive"),
        ("Shared", "IntentShared Shared Update"),
        ("Update", "IntentShared Shared"),
        ("Exclusive", ""),
    ],
)
def test_each_mode_lets_others_hold_the_lock_in_the_modes_of_the_manual(side, held, allowed):
    side.run(take(held, "Session"))
    for mode in ("IntentShared", "IntentExclusive", "Shared", "Update", "Exclusive"):
        other = side.connect("db")
        assert side.rows(take(mode, "Session"), other) == [(0 if mode in allowed.split() else -1,)]
        other.close()


def test_a_lock_of_a_transaction_ends_with_it(side):
    other = side.connect("db")
    assert side.rows(take("Exclusive", "Transaction")) == [(-999,)]
    for end in ("COMMIT", "ROLLBACK"):
        side.run(f"BEGIN TRAN; {take('Exclusive', 'Transaction')}")
        assert side.rows(take("Shared", "Session"), other) == [(-1,)]
        side.run(end)
        assert side.rows(take("Exclusive", "Session"), other) == [(0,)]
        side.run("EXECUTE sp_releaseapplock 'r', 'Session'", other)


def test_a_lock_is_released_as_often_as_it_was_taken(side):
    other = side.connect("db")
    side.run(take("Shared", "Session"))
    side.run(take("Exclusive", "Session"))
    for status in (-1, 0):
        side.run("EXECUTE sp_releaseapplock @Resource = N'r', @LockOwner = 'Session'")
        assert side.rows(take("Exclusive", "Session"), other) == [(status,)]
    assert side.error("EXECUTE sp_releaseapplock 'r', 'Session'").number == 1223


@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("sp_getapplock N'r', 'IntentUpdate', 'Session'", 15625),
        ("sp_getapplock N'r', 'Shared', 'Nobody'", 15625),
        ("sp_getapplock N'r', 'Shared'", 15626),
        ("sp_getapplock NULL, 'Shared', 'Session'", 1224),
        ("sp_getapplock N'r', 'Shared', 'Session', -5", 1227),
        ("sp_releaseapplock N'r', 'Nobody'", 15625),
        ("sp_releaseapplock N'r', 'Session'", 1223),
        ("sp_releaseapplock NULL, 'Session'", 1224),
        ("sp_releaseapplock N'r'", 3918),
    ],
)
def test_what_makes_no_sense_has_a_message_and_the_status_999_as_others_have_measured(side, call, number):
    results = side.results(f"DECLARE @status int; EXECUTE @status = {call}; SELECT @status, @@ERROR")
    assert [message.number for message in results.messages] == [number]
    assert results.sets[-1][1] == [(-999, 0)]


def test_an_error_goes_to_catch_and_a_principal_is_refused_by_name(side):
    batch = (
        "BEGIN TRY EXEC sp_releaseapplock 'r' END TRY BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_PROCEDURE() END CATCH"
    )
    assert side.rows(batch) == [(3918, "xp_userlock")]
    assert side.error("EXEC sp_getapplock N'r', 'Shared', 'Session', 0, 'dbo'").number == 50001

"""SET options."""

from __future__ import annotations


def test_a_procedures_set_options_end_with_it(side):
    side.run("CREATE PROCEDURE dbo.quiet AS SET NOCOUNT ON; INSERT dbo.t (n) VALUES (1)")
    assert side.run("EXEC dbo.quiet; INSERT dbo.t (n) VALUES (2)").counts == [1]


def test_the_isolation_level_is_shown_and_changes_nothing(side):
    levels = {"READ UNCOMMITTED": 1, "READ COMMITTED": 2, "REPEATABLE READ": 3, "SERIALIZABLE": 4, "SNAPSHOT": 5}
    query = "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    for name, level in levels.items():
        assert side.value(f"SET TRANSACTION ISOLATION LEVEL {name}; {query}") == level

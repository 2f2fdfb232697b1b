"""What is left of a statement that exceeds its budget, wherever it looks at it."""

import pytest

from harness.embedded.errors import OVER_BUDGET, SqlServerError
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.storage.budget import Budget

ROWS = 1400


class LooksAtMost(Budget):
    """Ends a statement inside TRY at its look of this number."""

    def __init__(self, session: Session, looks: int) -> None:
        self.session, self.looks = session, looks

    def look(self) -> None:
        self.looks -= self.session.try_depth
        if self.looks == 0 and self.session.try_depth:
            raise SqlServerError(OVER_BUDGET, "looks")


@pytest.mark.parametrize(
    "change", ["INSERT {0} SELECT n, name FROM {0}", "UPDATE {0} SET n = n + 1, name = N'x'", "DELETE {0} WHERE n >= 0"]
)
@pytest.mark.parametrize("table", ["dbo.t", "@t"])
def test_a_change_that_exceeds_its_budget_anywhere_changes_nothing(side, change, table):
    side.run("INSERT dbo.t (n) VALUES " + ", ".join(f"({n})" for n in range(ROWS // 2)))
    side.run(f"INSERT dbo.t (n) SELECT n + {ROWS // 2} FROM dbo.t")
    text = (
        "DECLARE @t TABLE (n int, name nvarchar(10)); INSERT @t SELECT n, name FROM dbo.t; BEGIN TRAN; "
        f"BEGIN TRY {change} END TRY BEGIN CATCH END CATCH; SELECT COUNT(*), SUM(n), COUNT(name) FROM {{0}}; ROLLBACK"
    ).format(table)
    for looks in range(1, 100):
        side.instance.sqlite.budget = budget = LooksAtMost(side.session, looks)
        rows = side.rows(text)
        if budget.looks > 0:
            break
        assert rows == [(ROWS, sum(range(ROWS)), 0)]
    assert looks > 5 and rows != [(ROWS, sum(range(ROWS)), 0)]

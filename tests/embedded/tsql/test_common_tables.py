"""Common table expressions before UPDATE and DELETE, which change the table under one or join it."""

import pytest

from tests.embedded.tsql.sides import Side
from tests.embedded.tsql.test_permissions import as_login

ROWS = [(1, "a", 5), (2, "b", 6), (3, "b", 7), (4, "b", 7)]


SET_UP = f"""
CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(10), n int)
INSERT dbo.t VALUES {", ".join(f"({number}, N'{name}', {n})" for number, name, n in ROWS)}
"""


def left(side: Side) -> list[tuple[object, ...]]:
    return side.rows("SELECT * FROM dbo.t ORDER BY id")


def test_delete_of_the_first_row_of_a_queue(side):
    results = side.run("WITH c AS (SELECT TOP (1) * FROM dbo.t ORDER BY n DESC, id) DELETE FROM c OUTPUT deleted.id")
    assert results.sets[0][1] == [(3,)]
    assert left(side) == [ROWS[0], ROWS[1], ROWS[3]]


def test_delete_of_all_but_one_of_each_group(side):
    numbered = "SELECT *, ROW_NUMBER() OVER (PARTITION BY n ORDER BY id DESC) AS r FROM dbo.t"
    side.run(f"WITH c AS ({numbered}) DELETE c WHERE r > 1")
    assert left(side) == [ROWS[0], ROWS[1], ROWS[3]]


def test_update_by_names_that_the_expression_gives(side):
    side.run(
        "WITH c (k, v, w) AS (SELECT id, n, n + id FROM dbo.t WITH (READPAST)) UPDATE x SET v = w FROM c AS x WHERE k > 3"
    )
    assert left(side) == [*ROWS[:3], (4, "b", 11)]
    side.run("WITH c AS (SELECT id, n AS v FROM dbo.t AS y WHERE y.name = N'b') UPDATE TOP (1) c SET v += 100")
    assert [row for row in left(side) if row[2] > 100] == [(2, "b", 106)]


def test_an_expression_that_is_joined(side):
    side.run(
        "WITH c AS (SELECT n, MIN(id) AS first FROM dbo.t GROUP BY n) DELETE t FROM dbo.t t JOIN c ON c.n = t.n AND c.first < t.id"
    )
    assert left(side) == ROWS[:3]
    side.run("WITH c AS (SELECT 2 AS k) UPDATE dbo.t SET n = 0 WHERE id IN (SELECT * FROM c)")
    assert left(side)[1] == (2, "b", 0)


def test_a_table_variable_under_an_expression(side):
    batch = "DECLARE @v TABLE (a int); INSERT @v VALUES (1), (2), (3); WITH c AS (SELECT TOP (2) a FROM @v ORDER BY a DESC) DELETE c;"
    assert side.rows(f"{batch} SELECT a FROM @v") == [(1,)]


def test_a_rollback_and_a_trigger_see_what_an_expression_changed(side):
    side.run("CREATE TABLE dbo.gone (id int)")
    side.run("CREATE TRIGGER dbo.tr ON dbo.t AFTER DELETE AS INSERT dbo.gone SELECT id FROM deleted")
    delete = "WITH c AS (SELECT TOP (2) * FROM dbo.t ORDER BY id) DELETE c"
    side.run(f"BEGIN TRANSACTION; {delete}; ROLLBACK")
    assert left(side) == ROWS
    side.run(delete)
    assert side.rows("SELECT id FROM dbo.gone ORDER BY id") == [(1,), (2,)]


def test_who_may_only_read_changes_nothing(side):
    side.run("CREATE LOGIN ann WITH PASSWORD = 'Pp1!aaaaaaaa'; CREATE USER ann; GRANT SELECT ON dbo.t TO ann")
    ann = as_login(side, "ann", "db")
    assert side.error("WITH c AS (SELECT * FROM dbo.t) DELETE c", ann).number == 229
    side.run("GRANT DELETE ON dbo.t TO ann")
    side.run("WITH c AS (SELECT * FROM dbo.t) DELETE c WHERE id = 1", ann)
    assert left(side) == ROWS[1:]


REFUSED = {
    "WITH c AS (SELECT COUNT(*) AS k FROM dbo.t) DELETE c": 4403,
    "WITH c AS (SELECT DISTINCT n FROM dbo.t) DELETE c": 4403,
    "WITH c AS (SELECT n FROM dbo.t UNION ALL SELECT 1) DELETE c": 4403,
    "WITH c AS (SELECT t.id FROM dbo.t JOIN dbo.t AS u ON u.id = t.id) DELETE c": 4405,
    "WITH c AS (SELECT id, n + 1 AS m FROM dbo.t) UPDATE c SET m = 3": 4406,
    "WITH c AS (SELECT id FROM dbo.t) UPDATE c SET n = 3": 207,
    "WITH c AS (SELECT id FROM dbo.t), d AS (SELECT id FROM c) DELETE d": 50001,
    "WITH c AS (SELECT id FROM dbo.t) INSERT c (id) VALUES (3)": 50001,
    "WITH c AS (SELECT id FROM dbo.t) MERGE dbo.t USING c ON c.id = t.id WHEN MATCHED THEN DELETE;": 50001,
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(side, text):
    assert side.error(text).number == REFUSED[text]
    assert left(side) == ROWS


def test_a_column_has_the_name_that_sqlite_gives_to_the_number_of_a_row(side):
    side.run("CREATE TABLE dbo.r (rowid int, oid int); INSERT dbo.r VALUES (7, 1), (8, 2)")
    side.run("UPDATE dbo.r SET oid = 5 WHERE rowid = 7; DELETE dbo.r WHERE rowid = 8")
    assert side.rows("SELECT * FROM dbo.r") == [(7, 5)]
    assert side.error("SELECT rowid FROM dbo.t").number == 207
    assert side.error("CREATE TABLE dbo.s (_rowid_ int)").number == 50001
    assert side.error("DECLARE @s TABLE (_rowid_ int)").number == 50001

"""Keys by CREATE INDEX, CHECK and FOREIGN KEY constraints, views, temporary tables and SELECT INTO."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.tsql.requests import ClientSession
from tests.embedded.tsql.sides import World

PARENT = (
    "CREATE TABLE dbo.a (id int NOT NULL CONSTRAINT PK_a PRIMARY KEY, n int NULL); INSERT dbo.a VALUES (1, 10), (2, 20)"
)
CHILD = (
    "CREATE TABLE dbo.b (id int IDENTITY, a_id int NULL CONSTRAINT FK_b REFERENCES dbo.a (id), q int CHECK (q > 0), r int, "
    "CONSTRAINT CK_b CHECK (r < q)); INSERT dbo.b (a_id, q, r) VALUES (1, 5, 2), (NULL, NULL, 9)"
)


@pytest.fixture
def related(side):
    side.run(PARENT)
    side.run(CHILD)
    return side


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "INSERT dbo.b (a_id) VALUES (1), (3)",
            ("INSERT", 'FOREIGN KEY constraint "FK_b"', "table \"dbo.a\", column 'id'"),
        ),
        ("UPDATE dbo.b SET a_id = 7", ("UPDATE", "FOREIGN KEY", "dbo.a")),
        ("DELETE dbo.a WHERE id = 1", ("DELETE", 'REFERENCE constraint "FK_b"', "table \"dbo.b\", column 'a_id'")),
        ("UPDATE dbo.a SET id = id + 10", ("UPDATE", "REFERENCE", "dbo.b")),
        ("INSERT dbo.b (q) VALUES (1), (0)", ("INSERT", "CHECK", "table \"dbo.b\", column 'q'")),
        ("UPDATE dbo.b SET r = 6", ("UPDATE", 'CHECK constraint "CK_b"', 'table "dbo.b".')),
        ("ALTER TABLE dbo.a ADD CONSTRAINT CK_a CHECK (n > 15)", ("ALTER TABLE", "CK_a")),
        ("ALTER TABLE dbo.b WITH CHECK ADD FOREIGN KEY (r) REFERENCES dbo.a (id)", ("ALTER TABLE", "FK_b_1")),
    ],
)
def test_a_change_against_a_rule_is_547_and_changes_nothing(related, change: str, words: tuple[str, ...]) -> None:
    state = "SELECT id, n FROM dbo.a; SELECT id, a_id, q, r FROM dbo.b"
    before = related.results(state).sets
    error = related.error(change)
    assert error.number == 547 and all(word in error.text for word in words), error.text
    assert related.results(state).sets == before


def test_several_constraints_go_at_once(related) -> None:
    related.run(
        "ALTER TABLE dbo.a ADD m int NOT NULL CONSTRAINT DF_m DEFAULT 5, UNIQUE (n), CONSTRAINT UQ_m UNIQUE (id, m)"
    )
    related.run(
        "ALTER TABLE dbo.a DROP CONSTRAINT UQ_a, UQ_m, DF_m; ALTER TABLE dbo.b DROP FK_b; ALTER TABLE dbo.a DROP PK_a"
    )
    assert related.rows("SELECT name FROM sys.objects WHERE parent_object_id = OBJECT_ID('dbo.a')") == []
    related.run("INSERT dbo.a VALUES (1, 10, 5); DELETE dbo.a WHERE id = 1")


def test_what_keeps_the_rules_passes(related) -> None:
    related.run(
        "INSERT dbo.b (a_id, q, r) VALUES (2, 3, NULL); UPDATE dbo.b SET a_id = 2 WHERE a_id = 1; DELETE dbo.a WHERE id = 1"
    )
    assert related.rows("SELECT a_id FROM dbo.b ORDER BY id") == [(2,), (None,), (2,)]
    related.run("ALTER TABLE dbo.a WITH NOCHECK ADD CONSTRAINT CK_a CHECK (n > 100)")
    assert related.error("INSERT dbo.a VALUES (8, 8)").number == 547
    related.run("ALTER TABLE dbo.a DROP CONSTRAINT CK_a; INSERT dbo.a VALUES (8, 8)")


def test_a_rule_sees_the_rows_of_its_own_transaction_and_none_that_another_may_roll_back(related) -> None:
    related.run("BEGIN TRAN; INSERT dbo.a VALUES (3, 30); INSERT dbo.b (a_id) VALUES (3)")
    assert related.error("INSERT dbo.b (a_id) VALUES (3)", related.connect("db")).number == 547
    related.run("ROLLBACK")
    assert related.value("SELECT COUNT(*) FROM dbo.b") == 2


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("DROP TABLE dbo.a", 3726),
        ("TRUNCATE TABLE dbo.a", 4712),
        ("ALTER TABLE dbo.a DROP CONSTRAINT PK_a", 3725),
        ("CREATE TABLE dbo.c (x int REFERENCES dbo.nosuch (id))", 1767),
        ("CREATE TABLE dbo.c (x int REFERENCES dbo.a (n))", 1776),
        ("CREATE TABLE dbo.c (x int, FOREIGN KEY (y) REFERENCES dbo.a (id))", 207),
        ("CREATE TABLE dbo.c (x int, y int, FOREIGN KEY (x, y) REFERENCES dbo.a (id))", 8139),
        ("CREATE TABLE dbo.c (x int REFERENCES dbo.a (id) ON DELETE CASCADE)", 50001),
        ("CREATE TABLE dbo.c (x int CHECK (nosuch > 0))", 207),
        ("CREATE TABLE dbo.c (x int CHECK (x IN (SELECT id FROM dbo.a)))", 1046),
        ("DECLARE @t TABLE (x int CHECK (x > 0))", 50001),
        ("ALTER TABLE dbo.a DROP CONSTRAINT nosuch", 3728),
        ("ALTER TABLE dbo.a CHECK CONSTRAINT nosuch", 4917),
        ("ALTER TABLE dbo.b ADD CONSTRAINT CK_b CHECK (q > 1)", 2714),
    ],
)
def test_a_rule_that_makes_no_sense_is_an_error_and_stays_out(related, statement: str, number: int) -> None:
    assert related.error(statement).number == number
    assert related.value("SELECT OBJECT_ID('dbo.c')") is None


def test_the_catalog_shows_rules_and_a_restart_keeps_them(related) -> None:
    related.run("CREATE UNIQUE INDEX ux ON dbo.a (n)")
    related.run("CREATE VIEW dbo.v (number) AS SELECT id FROM dbo.a WHERE id > 1")
    related.crash()
    related.run("USE db")
    assert related.rows("SELECT name, definition, parent_column_id FROM sys.check_constraints ORDER BY name") == [
        ("CK_b", "(r < q)", 0),
        ("CK_b_0", "(q > 0)", 3),
    ]
    assert related.rows(
        "SELECT f.name, OBJECT_NAME(f.parent_object_id), OBJECT_NAME(f.referenced_object_id), c.parent_column_id, "
        "c.referenced_column_id FROM sys.foreign_keys AS f JOIN sys.foreign_key_columns AS c ON c.constraint_object_id = f.object_id"
    ) == [("FK_b", "b", "a", 2, 1)]
    assert related.rows("SELECT type FROM sys.objects WHERE name IN ('CK_b', 'FK_b', 'v') ORDER BY name") == [
        ("C ",),
        ("F ",),
        ("V ",),
    ]
    schema = "SELECT CONSTRAINT_NAME, CONSTRAINT_TYPE FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS WHERE TABLE_NAME = 'b'"
    assert related.rows(schema) == [("FK_b", "FOREIGN KEY"), ("CK_b_0", "CHECK"), ("CK_b", "CHECK")]
    referenced = "SELECT CONSTRAINT_NAME, UNIQUE_CONSTRAINT_NAME FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS"
    assert related.rows(referenced) == [("FK_b", "PK_a")]
    assert related.value("SELECT TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_NAME = 'v'") == "VIEW"
    assert related.value("SELECT VIEW_DEFINITION FROM INFORMATION_SCHEMA.VIEWS").startswith("CREATE VIEW dbo.v")
    indexes = "SELECT name, index_id, type_desc, is_unique, is_primary_key FROM sys.indexes WHERE object_id = OBJECT_ID('dbo.a')"
    assert related.rows(indexes) == [("PK_a", 1, "CLUSTERED", 1, 1), ("ux", 2, "NONCLUSTERED", 1, 0)]
    assert related.rows("SELECT number FROM dbo.v") == [(2,)]
    assert related.error("INSERT dbo.a VALUES (3, 20)").text.endswith("The duplicate key value is (20).")
    assert related.error("DELETE dbo.a").number == 547


@given(
    rows=st.lists(st.tuples(st.sampled_from(["a", "b", "-a", "-b"]), st.integers(0, 3), st.integers(0, 3)), max_size=20)
)
def test_no_row_ever_refers_to_none(rows: list[tuple[str, int, int]]) -> None:
    side = World().side("Here")
    for statement in ("CREATE DATABASE db", "USE db", "CREATE TABLE a (id int PRIMARY KEY)"):
        side.run(statement)
    side.run("CREATE TABLE b (id int PRIMARY KEY, a_id int NOT NULL REFERENCES a)")
    parents: set[int] = set()
    children: dict[int, int] = {}
    for table, key, other in rows:
        match table:
            case "a":
                statement, allowed = f"INSERT a VALUES ({key})", key not in parents
                changed = (parents | {key}, children)
            case "b":
                statement, allowed = f"INSERT b VALUES ({key}, {other})", key not in children and other in parents
                changed = (parents, children | {key: other})
            case "-a":
                statement, allowed = f"DELETE a WHERE id = {key}", key not in children.values()
                changed = (parents - {key}, children)
            case _:
                statement, allowed = f"DELETE b WHERE id = {key}", True
                changed = (parents, {child: parent for child, parent in children.items() if child != key})
        assert bool(side.results(statement).errors) is not allowed, statement
        if allowed:
            parents, children = changed
    assert {row[0] for row in side.rows("SELECT id FROM a")} == parents
    assert dict(side.rows("SELECT id, a_id FROM b")) == children


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("CREATE UNIQUE INDEX u ON dbo.b (r, r2)", 207),
        ("CREATE INDEX PK_a ON dbo.a (n)", 1913),
        ("CREATE CLUSTERED INDEX c ON dbo.a (n)", 1902),
        ("CREATE INDEX i ON dbo.nosuch (n)", 1088),
        ("CREATE UNIQUE INDEX i ON dbo.a (n) WHERE n > 0", 50001),
        ("UPDATE dbo.a SET n = 1; CREATE UNIQUE INDEX i ON dbo.a (n)", 1505),
        ("DROP INDEX PK_a ON dbo.a", 3723),
        ("DROP INDEX nosuch ON dbo.a", 3701),
        (
            "CREATE UNIQUE INDEX u ON dbo.a (n); CREATE TABLE dbo.c (x int REFERENCES dbo.a (n)); DROP INDEX u ON dbo.a",
            3723,
        ),
        ("CREATE UNIQUE NONCLUSTERED INDEX i ON dbo.a (n) WITH (FILLFACTOR = 80); INSERT dbo.a VALUES (3, 20)", 2601),
    ],
)
def test_what_an_index_refuses(related, statement: str, number: int) -> None:
    assert related.error(statement).number == number


@pytest.mark.parametrize("type_", ["varchar(5) NOT NULL", "nvarchar(5) NULL"])
def test_a_key_has_no_regard_to_case_and_blanks_at_the_end(side, type_: str) -> None:
    side.run(f"CREATE TABLE dbo.keyed (v {type_} UNIQUE); INSERT dbo.keyed VALUES ('a ')")
    assert side.error("INSERT dbo.keyed VALUES ('A')").number == 2627
    assert side.error(f"DECLARE @t table (v {type_} UNIQUE); INSERT @t VALUES ('a'), ('a ')").number == 2627
    side.run("UPDATE dbo.keyed SET v = 'A' WHERE v = 'a'")
    assert side.rows("SELECT v FROM dbo.keyed") == [("A",)]


def test_an_index_of_a_table_is_clustered_only_if_it_says_so(side) -> None:
    side.run(
        "CREATE TABLE ixs (a int, b int, c int, INDEX i (a), INDEX u UNIQUE NONCLUSTERED (b), INDEX k CLUSTERED (c))"
    )
    shown = side.rows(
        "SELECT name, index_id, is_unique FROM sys.indexes WHERE object_id = OBJECT_ID('ixs') ORDER BY name"
    )
    assert shown == [("i", 2, 0), ("k", 1, 0), ("u", 3, 1)]


def test_a_primary_key_is_clustered_unless_it_says_so_or_an_index_is(side) -> None:
    def indexes(table: str) -> list[tuple[object, ...]]:
        query = "SELECT name, index_id, type_desc FROM sys.indexes WHERE object_id = OBJECT_ID('{}') ORDER BY index_id"
        return side.rows(query.format(table))

    side.run(
        "CREATE TABLE dbo.g (a int NOT NULL CONSTRAINT p PRIMARY KEY NONCLUSTERED (a), b int CONSTRAINT u UNIQUE, c int)"
    )
    assert indexes("dbo.g") == [(None, 0, "HEAP"), ("p", 2, "NONCLUSTERED"), ("u", 3, "NONCLUSTERED")]
    side.run("CREATE CLUSTERED INDEX x ON dbo.g (c); INSERT dbo.g VALUES (1, 1, 1), (2, 2, 1)")
    clustered = [("x", 1, "CLUSTERED"), ("p", 2, "NONCLUSTERED")]
    assert indexes("dbo.g") == [*clustered, ("u", 3, "NONCLUSTERED")]
    side.run("ALTER TABLE dbo.g DROP CONSTRAINT u")
    assert indexes("dbo.g") == clustered
    side.run("ALTER TABLE dbo.g DROP CONSTRAINT p; ALTER TABLE dbo.g ADD CONSTRAINT p PRIMARY KEY (a)")
    assert indexes("dbo.g") == clustered
    assert side.error("INSERT dbo.g VALUES (1, 5, 5)").number == 2627
    side.run("ALTER TABLE dbo.g DROP CONSTRAINT p")
    for text, existing in (
        ("ALTER TABLE dbo.g ADD CONSTRAINT p PRIMARY KEY CLUSTERED (a)", "x"),
        ("CREATE CLUSTERED INDEX y ON dbo.g (b)", "x"),
        ("CREATE TABLE dbo.k (a int CONSTRAINT k PRIMARY KEY, b int); CREATE CLUSTERED INDEX y ON dbo.k (b)", "k"),
    ):
        refused = side.error(text)
        assert refused.number == 1902 and f"the existing clustered index '{existing}'" in refused.text, text
    side.run("CREATE TABLE dbo.m (a int CONSTRAINT q PRIMARY KEY, b int, INDEX z CLUSTERED (b))")
    assert indexes("dbo.m") == [("z", 1, "CLUSTERED"), ("q", 2, "NONCLUSTERED")]
    side.crash()
    side.run("USE db")
    assert indexes("dbo.m") == [("z", 1, "CLUSTERED"), ("q", 2, "NONCLUSTERED")]


def test_the_catalog_shows_what_an_index_was_made_with(related):
    related.run("CREATE TABLE dbo.i (a int, b int, c int, INDEX x (a DESC))")
    related.run("CREATE INDEX y ON dbo.i (a, b DESC) INCLUDE (c) WHERE b > 0 AND c IS NOT NULL")
    shown = (
        "SELECT i.name, filter_definition, COL_NAME(k.object_id, column_id), key_ordinal, is_descending_key, is_included_column "
        "FROM sys.indexes i JOIN sys.index_columns k ON k.object_id = i.object_id AND k.index_id = i.index_id "
        "WHERE i.object_id = OBJECT_ID('dbo.i') ORDER BY i.name, index_column_id"
    )
    related.crash()
    condition = "(b > 0 AND c IS NOT NULL)"
    assert related.rows(f"USE db; {shown}") == [
        ("x", None, "a", 1, True, False),
        ("y", condition, "a", 1, False, False),
        ("y", condition, "b", 2, True, False),
        ("y", condition, "c", 0, False, True),
    ]


def test_an_index_changes_no_result_and_goes(related) -> None:
    related.run("CREATE INDEX i ON dbo.a (n) INCLUDE (id) WHERE n > 0; CREATE UNIQUE INDEX u ON dbo.a (n)")
    assert related.rows("SELECT id FROM dbo.a WHERE n = 20") == [(2,)]
    related.run(
        "DROP INDEX i ON dbo.a; DROP INDEX dbo.a.u; DROP INDEX IF EXISTS u ON dbo.a; INSERT dbo.a VALUES (3, 20)"
    )


def test_a_view_stands_for_its_query(related) -> None:
    related.run("CREATE VIEW dbo.v (number, twice) AS SELECT id, n * 2 FROM dbo.a WHERE n <> 5")
    assert related.rows("SELECT x.twice, a.n FROM dbo.v AS x JOIN dbo.a AS a ON a.id = x.number ORDER BY 1") == [
        (20, 10),
        (40, 20),
    ]
    related.run("CREATE VIEW w AS SELECT MAX(twice) AS most FROM v")
    assert related.rows("WITH a AS (SELECT 1 AS z) SELECT most, z FROM w, a") == [(40, 1)]
    assert related.error("ALTER VIEW v AS SELECT most AS number, 1 AS twice FROM w").number == 4429
    assert related.error("CREATE VIEW x AS SELECT COUNT(*) FROM dbo.a").number == 4511
    assert related.error("CREATE VIEW x AS SELECT * FROM nosuch").number == 208
    assert related.error("CREATE VIEW x AS SELECT id INTO y FROM dbo.a").number == 50001
    assert related.error("CREATE VIEW x AS SELECT id FROM dbo.a WHERE id = @n").number == 137
    assert related.error("INSERT v VALUES (1, 2)").number == 50001
    related.run("ALTER VIEW v AS SELECT id AS number, n AS twice FROM dbo.a")
    assert related.value("SELECT most FROM w") == 20
    related.run("DROP VIEW v")
    assert related.error("SELECT * FROM w").number == 208


def test_who_may_read_a_view_may_read_nothing_else_of_its_table(related) -> None:
    related.run("CREATE LOGIN l WITH PASSWORD = 'Secret-1'; CREATE USER l FOR LOGIN l")
    related.run("CREATE VIEW dbo.v AS SELECT id FROM dbo.a")
    related.spids += 1
    other = ClientSession(related.engine, spid=related.spids, login="l", database="db")
    assert related.error("SELECT * FROM dbo.v", other).number == 229
    related.run("GRANT SELECT ON dbo.v TO l")
    assert related.rows("SELECT id FROM dbo.v", other) == [(1,), (2,)]
    assert related.error("SELECT id FROM dbo.a", other).number == 229
    assert related.error("ALTER VIEW dbo.v AS SELECT n FROM dbo.a", other).number == 15151
    related.run("CREATE INDEX i ON dbo.a (n); GRANT SELECT ON dbo.a TO l")
    assert related.error("DROP INDEX i ON dbo.a", other).number == 3701
    assert related.error("CREATE INDEX j ON dbo.a (n)", other).number == 1088


def test_a_temporary_table_belongs_to_its_session_and_its_procedure(side) -> None:
    side.run("CREATE TABLE #t (id int IDENTITY, v nvarchar(9)); INSERT #t VALUES (N'mine')")
    other = side.connect("db")
    assert side.error("SELECT * FROM #t", other).number == 208
    side.run("CREATE TABLE #t (z int); INSERT #t VALUES (7)", other)
    side.run("CREATE PROCEDURE look AS SELECT * FROM #t")
    side.run("CREATE PROCEDURE shadow AS CREATE TABLE #t (inner_one int); INSERT #t VALUES (5); EXEC look")
    for _ in range(2):
        assert side.rows("EXEC look") == [(1, "mine")]
        assert side.rows("EXEC look", other) == [(7,)]
        assert side.rows("EXEC shadow") == [(5,)]
    assert side.error("CREATE TABLE #t (id int)").number == 2714
    assert side.error("CREATE TABLE ##t (id int)").number == 50001
    assert side.rows("SELECT OBJECT_ID('tempdb..#u'), OBJECT_ID('tempdb..#t') - OBJECT_ID('tempdb..#t')") == [(None, 0)]
    side.run("BEGIN TRAN; CREATE TABLE #gone (id int); UPDATE #t SET v = N'other'; EXEC shadow; ROLLBACK")
    assert side.error("SELECT * FROM #gone").number == 208
    assert side.rows("SELECT v FROM #t") == [("mine",)]
    side.run("ALTER TABLE #t ADD more int; TRUNCATE TABLE #t; DROP TABLE #t; DROP TABLE IF EXISTS #t")
    other.close()
    assert side.value("SELECT COUNT(*) FROM tempdb.sys.tables") == 0


def test_nothing_of_a_temporary_table_is_stored(side) -> None:
    before = {key for key in side.store.rows if key[0].startswith("tsql.")}
    side.run("CREATE TABLE #t (id int); INSERT #t VALUES (1); UPDATE #t SET id = 2; ALTER TABLE #t ADD UNIQUE (id)")
    assert {key for key in side.store.rows if key[0].startswith("tsql.")} == before
    side.crash()
    assert side.value("SELECT COUNT(*) FROM tempdb.sys.tables") == 0


def test_select_into_makes_a_table_of_the_columns_of_its_query(side) -> None:
    side.run("CREATE TABLE a (id int IDENTITY PRIMARY KEY, v nvarchar(20) NOT NULL); INSERT a VALUES (N'x'), (N'y')")
    side.run("WITH c AS (SELECT id, v FROM a) SELECT c.*, v + N'!' AS w, NULL AS nothing INTO b FROM c WHERE id > 1")
    assert side.value("SELECT @@ROWCOUNT") == 1
    assert side.rows("SELECT * FROM b") == [(2, "y", "y!", None)]
    assert side.rows(
        "SELECT name, TYPE_NAME(user_type_id), is_nullable, is_identity FROM sys.columns WHERE object_id = OBJECT_ID('b')"
    ) == [("id", "int", 0, 0), ("v", "nvarchar", 0, 0), ("w", "nvarchar", 1, 0), ("nothing", "int", 1, 0)]
    side.run(
        "SELECT conversation_handle INTO #c FROM sys.conversation_endpoints; SELECT id INTO #u FROM a UNION SELECT 9"
    )
    assert side.rows("SELECT id FROM #u ORDER BY id") == [(1,), (2,), (9,)]
    for query, number in {
        "id + 1 INTO #e FROM a": 1038,
        "id, v AS ID INTO #e FROM a": 2705,
        "id INTO b FROM a": 2714,
        "@x = id INTO #e FROM a": 194,
        "id INTO nosuch.e FROM a": 2760,
        "id FROM (SELECT id INTO #e FROM a) AS d": 102,
        "id FROM a UNION SELECT id INTO #e FROM a": 102,
    }.items():
        assert side.error(f"DECLARE @x int; SELECT {query}").number == number
    side.run(
        "BEGIN TRAN; SELECT id INTO rolled FROM a; ROLLBACK; SET FMTONLY ON; SELECT id INTO shown FROM a; SET FMTONLY OFF"
    )
    assert side.rows("SELECT OBJECT_ID('rolled'), OBJECT_ID('shown')") == [(None, None)]


# -- rowversion --------------------------------------------------------------------------------------------------------


def test_each_change_of_a_row_gives_it_a_new_rowversion():
    side = World().side("Here")
    side.run("CREATE TABLE dbo.a (id int, v rowversion NOT NULL); CREATE TABLE dbo.b (timestamp, id int)")
    first = side.rows("INSERT dbo.a (id) OUTPUT inserted.v VALUES (1), (2)")
    assert [int.from_bytes(version, "big") for (version,) in first] == [1, 2]
    side.run("INSERT dbo.b (id) VALUES (1); INSERT dbo.a VALUES (3, DEFAULT)")
    changed = "DECLARE @before rowversion = (SELECT MAX(v) FROM dbo.a); UPDATE dbo.a SET id = 9 WHERE id = 1; "
    assert side.rows(f"{changed} SELECT id, CAST(v AS bigint) FROM dbo.a WHERE v > @before") == [(9, 5)]
    assert side.rows("SELECT CAST(timestamp AS bigint) FROM dbo.b") == [(3,)]
    side.world.run_for(1)
    side.crash()
    side.run("UPDATE dbo.b SET id = 2")
    assert side.rows("SELECT CAST(timestamp AS bigint), id FROM dbo.b") == [(6, 2)]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("INSERT dbo.a (id, v) VALUES (1, 0x01)", 273),
        ("UPDATE dbo.a SET v = 0x01", 272),
        ("CREATE TABLE dbo.x (a rowversion, b timestamp)", 2738),
        ("CREATE TABLE dbo.x (a rowversion(8))", 102),
        ("DECLARE @t TABLE (a rowversion)", 50001),
        ("INSERT dbo.n VALUES (1); ALTER TABLE dbo.n ADD v rowversion", 50001),
        ("CREATE SCHEMA s CREATE TABLE t (a int)", 50001),
    ],
)
def test_rowversion_refused(text, number):
    side = World().side("Here")
    side.run("CREATE TABLE dbo.a (id int, v rowversion); CREATE TABLE dbo.n (a int)")
    assert side.error(text).number == number

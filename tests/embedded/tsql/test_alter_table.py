"""ALTER TABLE ADD: columns, keys and defaults; what existing rows have in them, and what others see meanwhile."""

import pytest

SET_UP = """
CREATE TABLE dbo.t (a int NOT NULL, b nvarchar(9) NULL)
INSERT dbo.t VALUES (1, N'x'), (2, N'x'); CREATE TABLE dbo.empty (a int)
"""


@pytest.mark.parametrize(
    "column, values",
    [
        ("c int", [None, None]),
        ("c int DEFAULT 7", [None, None]),
        ("c int DEFAULT 7 WITH VALUES", [7, 7]),
        ("c int NOT NULL CONSTRAINT DF_c DEFAULT (3 + 4)", [7, 7]),
        ("c int IDENTITY(5, 1)", [5, 6]),
        ("c int IDENTITY(5, 1) PRIMARY KEY", [5, 6]),
        ("c bigint NOT NULL DEFAULT 7, d int", [7, 7]),
    ],
)
def test_existing_rows_have_null_or_the_default_or_a_number_in_a_new_column(side, column, values):
    side.run(f"ALTER TABLE dbo.t ADD {column}")
    assert [row[0] for row in side.rows("SELECT c FROM dbo.t ORDER BY a")] == values
    side.run("INSERT dbo.t (a) VALUES (3)")
    assert side.value("SELECT c FROM dbo.t WHERE a = 3") == (None if column == "c int" else 7)
    rows = side.rows("SELECT * FROM dbo.t ORDER BY a")
    side.crash()
    assert side.rows("USE db; SELECT * FROM dbo.t ORDER BY a") == rows


def test_each_row_has_a_value_of_its_own_from_a_default_that_differs(side):
    side.run("ALTER TABLE dbo.t ADD id uniqueidentifier NOT NULL DEFAULT NEWID()")
    assert side.value("SELECT COUNT(DISTINCT id) FROM dbo.t") == 2


def test_keys_and_defaults_of_existing_columns_count_from_then_on(side):
    side.run("ALTER TABLE dbo.t ADD CONSTRAINT PK_t PRIMARY KEY (a), CONSTRAINT DF_t DEFAULT N'y' FOR b")
    side.run("ALTER TABLE dbo.t ADD CONSTRAINT UQ_ab UNIQUE (b, a)")
    side.crash()
    side.run("USE db; INSERT dbo.t (a) VALUES (3)")
    assert side.value("SELECT b FROM dbo.t WHERE a = 3") == "y"
    assert "'PK_t'" in side.error("INSERT dbo.t VALUES (3, N'z')").text
    assert side.rows("SELECT name FROM sys.key_constraints ORDER BY name") == [("PK_t",), ("UQ_ab",)]


@pytest.mark.parametrize(
    "change, number",
    [
        ("nowhere ADD c int", 4902),
        ("dbo.t ADD c int NOT NULL", 4901),
        ("dbo.t ADD c int, A int", 2705),
        ("dbo.t ADD UNIQUE (b)", 1505),
        ("dbo.t ADD PRIMARY KEY (b)", 8111),
        ("dbo.t ADD c int NOT NULL DEFAULT 1 PRIMARY KEY", 1505),
        ("dbo.t ADD DEFAULT 1 FOR c", 1752),
        ("dbo.t ADD c tinyint IDENTITY(255, 1)", 8115),
        ("dbo.t ADD CHECK (a < 0)", 547),
        ("dbo.t DROP COLUMN a", 50001),
        ("dbo.t ALTER COLUMN nothing bigint", 4924),
        ("dbo.t ALTER COLUMN b int", 245),
        ("dbo.t ADD PRIMARY KEY (a); ALTER TABLE dbo.t ALTER COLUMN a bigint", 5074),
        ("dbo.t ADD CHECK (a > 0); ALTER TABLE dbo.t ALTER COLUMN a bigint", 5074),
        ("dbo.t ADD CONSTRAINT UQ_a UNIQUE (a); ALTER TABLE dbo.t ADD CONSTRAINT UQ_a UNIQUE (a)", 2714),
        ("dbo.t ADD PRIMARY KEY (a); ALTER TABLE dbo.t ADD c int IDENTITY PRIMARY KEY", 1779),
        ("dbo.t ADD DEFAULT 1 FOR b; ALTER TABLE dbo.t ADD DEFAULT 1 FOR b", 1781),
    ],
)
def test_a_change_that_is_not_possible_has_sql_servers_number_and_changes_nothing(side, change, number):
    assert side.error(f"ALTER TABLE {change}").number == number
    assert side.rows("SELECT * FROM dbo.t") == [(1, "x"), (2, "x")]


def test_an_empty_table_takes_a_column_without_null(side):
    side.run("ALTER TABLE dbo.empty ADD c int NOT NULL")
    assert side.error("INSERT dbo.empty (a) VALUES (1)").number == 515


def test_a_rollback_takes_the_column_back_and_others_never_see_uncommitted_rows(side):
    other = side.connect("db")
    side.run("BEGIN TRANSACTION; INSERT dbo.t VALUES (3, N'z'); ALTER TABLE dbo.t ADD c int NOT NULL DEFAULT 7")
    side.run("UPDATE dbo.t SET c = 8; INSERT dbo.t VALUES (4, N'z', 9)")
    assert [row[:2] for row in side.rows("SELECT * FROM dbo.t", other)] == [(1, "x"), (2, "x")]
    side.run("ROLLBACK")
    assert side.rows("SELECT * FROM dbo.t", other) == [(1, "x"), (2, "x")]
    side.run("BEGIN TRANSACTION; UPDATE dbo.t SET b = N'y'; ALTER TABLE dbo.t ADD c int; COMMIT")
    assert side.rows("SELECT * FROM dbo.t", other) == [(1, "y", None), (2, "y", None)]


def test_it_waits_for_a_transaction_that_has_changed_a_row(side):
    other = side.connect("db")
    side.run("BEGIN TRANSACTION; UPDATE dbo.t SET b = N'y' WHERE a = 1", other)
    assert side.error("SET LOCK_TIMEOUT 10; ALTER TABLE dbo.t ADD c int").number == 1222
    side.run("COMMIT", other)
    side.run("ALTER TABLE dbo.t ADD c int")
    assert side.rows("SELECT * FROM dbo.t", other) == [(1, "y", None), (2, "x", None)]


def test_triggers_rights_and_the_id_of_the_table_stay(side):
    before = side.value("SELECT OBJECT_ID('dbo.t')")
    side.run("ALTER TABLE dbo.t ADD c int DEFAULT 5")
    side.run("CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS INSERT dbo.empty SELECT c FROM inserted")
    side.run("INSERT dbo.t (a) VALUES (3)")
    side.run("ALTER TABLE dbo.t ADD d int")
    side.run("INSERT dbo.t (a) VALUES (4)")
    assert side.rows("SELECT a FROM dbo.empty") == [(5,), (5,)]
    assert side.value("SELECT OBJECT_ID('dbo.t')") == before


def test_alter_on_the_table_is_needed(side):
    side.run("CREATE LOGIN plain WITH PASSWORD = 'Secret-word-1'; CREATE USER plain FOR LOGIN plain")
    side.run("GRANT SELECT, INSERT, UPDATE ON dbo.t TO plain")
    plain = side.connect("db")
    plain.login = "plain"
    plain.reset()
    assert side.error("ALTER TABLE dbo.t ADD c int", plain).number == 4902
    side.run("GRANT ALTER ON dbo.t TO plain")
    side.run("ALTER TABLE dbo.t ADD c int", plain)


def test_a_column_takes_another_type_with_its_values(side):
    side.run(
        "ALTER TABLE dbo.t ALTER COLUMN a nvarchar(5) NULL; ALTER TABLE dbo.t ALTER COLUMN b nvarchar(20) NOT NULL"
    )
    side.run("INSERT dbo.t VALUES (NULL, N'longer than nine')")
    expected = [(None, "longer than nine"), ("1", "x"), ("2", "x")]
    assert side.rows("SELECT a, b FROM dbo.t ORDER BY a") == expected
    assert side.error("INSERT dbo.t (a) VALUES (N'3')").number == 515
    assert side.error("ALTER TABLE dbo.t ALTER COLUMN a nvarchar(5) NOT NULL").number == 515
    side.run(
        "BEGIN TRANSACTION; ALTER TABLE dbo.t ALTER COLUMN a nvarchar(1); ROLLBACK; INSERT dbo.t VALUES (N'12345', N'y')"
    )
    side.world.run_for(1)
    side.crash()
    assert side.rows("SELECT a, b FROM db.dbo.t WHERE b <> N'y' ORDER BY a") == expected


def test_an_identity_column_that_is_added_numbers_the_rows_as_far_as_its_type_goes(side):
    side.run("CREATE TABLE dbo.numbered (a int); INSERT dbo.numbered VALUES (1), (2), (3);")
    add = "ALTER TABLE dbo.numbered ADD id tinyint IDENTITY(254, 1)"
    assert side.error(add).number == 8115
    side.run(f"DELETE dbo.numbered WHERE a = 3; {add};")
    assert side.rows("SELECT a, id FROM dbo.numbered ORDER BY a") == [(1, 254), (2, 255)]

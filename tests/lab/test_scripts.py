from pathlib import Path

import pytest

from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.lab.error_remedies import error_text
from harness.simulation import parameters, simulated_lab


def test_a_missing_script_is_named() -> None:
    with pytest.raises(ScriptError, match=r"sql/nowhere\.sql: No such file"):
        scripts.load("nowhere.sql", {})


def test_a_file_with_several_batches_is_refused_as_a_single_batch(tmp_path: Path) -> None:
    file = tmp_path / "two.sql"
    file.write_text("SELECT 1;\nGO\nSELECT 2;")
    with pytest.raises(ScriptError, match="expected one batch, found 2"):
        scripts.single(file, {})


def test_errors_of_the_driver_are_reduced_to_what_the_server_said() -> None:
    text = (
        "[42S02] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Invalid object name 'x'. (208) (SQLExecDirectW)"
    )
    assert error_text(Exception("42S02", text)) == "Invalid object name 'x'. (error 208)"


def test_what_a_script_creates_is_told_from_its_comments_and_strings(tmp_path: Path) -> None:
    file = tmp_path / "orders.sql"
    file.write_text(
        "/* CREATE TABLE dbo.no */ -- CREATE TABLE dbo.neither\n"
        "CREATE OR ALTER PROCEDURE dbo.[Submit Order] AS SELECT 'CREATE TABLE dbo.nor';\nGO\n"
        "create table dbo.orders (id int);\nCREATE UNIQUE CLUSTERED INDEX ix ON dbo.orders (id);\n"
        "CREATE MESSAGE TYPE [//Orders/M] VALIDATION = NONE;\n"
    )
    assert scripts.created(file) == [
        "PROCEDURE dbo.[Submit Order]",
        "TABLE dbo.orders",
        "INDEX ix",
        "MESSAGE TYPE [//Orders/M]",
    ]


# Each script with the line that fails, and the error's text; line 0: only the batch is known.
FAILURES = [
    (
        "GO\nCREATE OR ALTER PROCEDURE dbo.P\nAS\n    SET @b = 1;\n",
        4,
        'Must declare the scalar variable "@b". (error 137)',
    ),
    ("SELECT 1;\nGO\n\n-- a comment\nSELECT 2;\nSELEC 3;\nGO\n", 6, "Incorrect syntax near 'SELEC'. (error 102)"),
    (
        "SELECT 1;\nGO\nSELECT N'$(Value)';\n\nINSERT INTO dbo.nothing VALUES ('$(Value)');\n",
        5,
        "object name 'dbo.nothing'",
    ),
    ("GO\n-- head\nCREATE OR ALTER PROCEDURE dbo.P\nAS\n    CREATE TABLE dbo.t (a int) SELEC;\n", 5, ""),
    (
        "CREATE TABLE dbo.t (a int NOT NULL);\nGO\nINSERT INTO dbo.t (a)\nVALUES (1), (CAST('a' AS int));\n",
        3,
        "(error 245)",
    ),
    ("BEGIN TRANSACTION;\nROLLBACK;\nRAISERROR(N'it''s (wrong)', 16, 1);\n", 3, "it's (wrong) (error 50000)"),
    (
        "CREATE OR ALTER PROCEDURE dbo.Q AS\n\nSELECT 1 / 0;\nGO\nSELECT 1;\nEXEC dbo.Q;\n",
        0,
        "batch at line 5: Divide by zero",
    ),
    ("SELECT 1;\nGO\nSELECT 2;\nCREATE DATABASE [master];\n", 0, "batch at line 3: Database 'master' already exists"),
]


@pytest.mark.parametrize("text, line, words", FAILURES)
def test_sql_that_is_refused_names_its_line_in_the_file(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "own.sql"
    path.write_text(text)
    lab = simulated_lab.open(parameters.read("paper"), version="2022", initiators=1, seed=1)
    with lab.target.connect("master") as connection:
        with pytest.raises(ScriptError) as raised:
            scripts.run(connection, path, {"Value": "it's"})
        assert scripts.scalar(connection, "SELECT @@TRANCOUNT;") == 0
    if line:
        assert str(raised.value).startswith(f"{path}, line {line}: "), raised.value
    assert words in str(raised.value)
    assert raised.value.__cause__ is not None  # says whether the instance refused it


def test_a_script_that_failed_lets_the_connection_execute_again(tmp_path: Path) -> None:
    path = tmp_path / "own.sql"
    path.write_text("SET NOEXEC ON;\nGO\nCREATE nothing;\nGO\nSET NOEXEC OFF;\n")
    lab = simulated_lab.open(parameters.read("paper"), version="2022", initiators=1, seed=1)
    with lab.target.connect("master") as connection:
        with pytest.raises(ScriptError):
            scripts.run(connection, path, {})
        assert scripts.scalar(connection, "SELECT 1;") == 1


def test_a_batch_that_failed_leaves_nothing_of_its_second_run(tmp_path: Path) -> None:
    path = tmp_path / "own.sql"
    path.write_text("INSERT INTO dbo.t (a) VALUES (1);\nINSERT INTO dbo.t (b) VALUES (1);\n")
    lab = simulated_lab.open(parameters.read("paper"), version="2022", initiators=1, seed=1)
    with lab.target.connect("master") as connection:
        scripts.execute(connection, "CREATE TABLE dbo.t (a int NOT NULL);")
        with pytest.raises(ScriptError, match=r"own\.sql, line 2: Invalid column name 'b'"):
            scripts.run(connection, path, {})
        assert scripts.values(connection, "SELECT a FROM dbo.t;") in ([1], [])

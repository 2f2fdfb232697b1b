"""Characters beyond the basic plane: each counts as two, as with every collation without _SC."""

import pytest

from harness.embedded import utf16
from harness.embedded.sqltypes import Parameter, SqlType

FACE = "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    "expression, value",
    [
        (f"LEN(N'{FACE}')", 2),
        (f"LEN(N'a{FACE}  ')", 3),
        (f"DATALENGTH(N'a{FACE}')", 6),
        (f"SUBSTRING(N'a{FACE}b', 2, 2)", FACE),
        (f"SUBSTRING(N'a{FACE}b', 4, 1)", "b"),
        (f"SUBSTRING(N'a{FACE}b', 4, LEN('x'))", "b"),
        (f"SUBSTRING(N'{FACE}', 1, 1)", "\ufffd"),
        (f"LEFT(N'{FACE}b', 2)", FACE),
        (f"RIGHT(N'{FACE}b', 1)", "b"),
        (f"RIGHT(N'a{FACE}', 2)", FACE),
        (f"CHARINDEX(N'b', N'{FACE}b')", 3),
        (f"CHARINDEX(N'{FACE}', N'{FACE}a{FACE}', 3)", 4),
        (f"CAST(N'{FACE}{FACE}' AS nvarchar(2))", FACE),
        (f"CAST(N'{FACE}' AS nchar(3))", f"{FACE} "),
        (f"CAST(N'{FACE}' AS varbinary(4))", FACE.encode("utf-16-le")),
        ("LEN(N'Жизнь')", 5),
        ("SUBSTRING('plain', 2, 3)", "lai"),
        ("LEN(NULL)", None),
    ],
)
def test_functions_count_utf_16_units(side, expression, value):
    [(columns, rows)] = side.run(f"SELECT {expression} AS a").sets
    assert rows == [(value,)]
    if isinstance(value, str):
        assert columns[0].type.length == -1 or columns[0].type.length >= utf16.length(value)


def test_a_column_takes_as_many_units_as_it_has(side):
    side.run(f"INSERT dbo.t (n, name) VALUES (1, N'{FACE * 5}')")  # nvarchar(10)
    assert side.error(f"INSERT dbo.t (n, name) VALUES (1, N'{FACE * 5}x')").number == 2628
    assert side.rows("SELECT name, LEN(name) FROM dbo.t") == [(FACE * 5, 10)]


def test_a_variable_and_a_parameter_keep_as_many_units_as_they_have(side):
    assert side.rows(f"DECLARE @a nvarchar(3) = N'{FACE}{FACE}'; SELECT @a") == [(f"{FACE}\ufffd",)]
    side.run("CREATE PROCEDURE dbo.p @a nvarchar(2), @b nvarchar(2) OUTPUT AS SET @b = @a")
    given = Parameter("@a", SqlType("nvarchar", length=4), FACE + FACE, False)
    found = side.rpc("dbo.p", [given, Parameter("@b", SqlType("nvarchar", length=2), None, True)])
    assert found.values == {"@b": FACE}

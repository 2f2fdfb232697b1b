"""sql_variant: variables, parameters and functions whose values carry their types."""

from decimal import Decimal

import pytest


@pytest.mark.parametrize(
    ("value", "described", "cast", "again"),
    [
        ("1.50", ("numeric", "5"), "decimal(5, 1)", Decimal("1.5")),
        ("7", ("int", "4"), "bigint", 7),
        ("1.5e0", ("float", "8"), "float", 1.5),
        ("N'it''s'", ("nvarchar", "8"), "nvarchar(10)", "it's"),
        ("'ab'", ("varchar", "2"), "varchar(1)", "a"),
        ("0xBAADF00D", ("varbinary", "4"), "varbinary(8)", b"\xba\xad\xf0\x0d"),
        ("CAST('2026-01-02' AS date)", ("date", "3"), "varchar(10)", "2026-01-02"),
        ("CAST(NULL AS int)", (None, None), "int", None),
    ],
)
def test_a_variant_keeps_the_type_and_the_value(side, value, described, cast, again):
    side.run(
        "CREATE PROCEDURE dbo.kept @v sql_variant AS DECLARE @w sql_variant = @v SELECT "
        f"SQL_VARIANT_PROPERTY(@w, 'BaseType'), SQL_VARIANT_PROPERTY(@w, 'maxlength'), CAST(@w AS {cast})"
    )
    assert side.rows(f"DECLARE @v sql_variant = {value}; EXEC dbo.kept @v") == [(*described, again)]


def test_parameters_of_any_type_become_xml(side):
    side.run("""CREATE FUNCTION dbo.described (@p sql_variant, @n sysname) RETURNS xml AS BEGIN
        RETURN (SELECT @n AS [@Name], SQL_VARIANT_PROPERTY(@p, 'Precision') AS [@Precision],
                       SQL_VARIANT_PROPERTY(@p, 'Scale') AS [@Scale], @p FOR XML PATH('p'), TYPE) END""")
    values = "SELECT dbo.described({}, '{}') AS [*] WHERE 1 = 1"
    rows = " UNION ALL ".join(values.format(value, name) for name, value in {"a": "1.0", "b": "0xBAADF00D"}.items())
    xml = '<p Name="a" Precision="2" Scale="1">1.0</p><p Name="b" Precision="0" Scale="0">uq3wDQ==</p>'
    assert side.value(f"SELECT * FROM ({rows}) AS p FOR XML PATH('')") == xml


def test_a_result_shows_variants_as_text(side):
    columns, rows = side.run("SELECT CAST(5 AS sql_variant) AS a UNION ALL SELECT CAST(0x0F AS sql_variant)").sets[0]
    assert (columns[0].type.name, rows) == ("nvarchar", [("5",), ("0x0F",)])
    columns, rows = side.run("DECLARE @v sql_variant = 7; INSERT dbo.t (n) OUTPUT @v, inserted.n VALUES (1)").sets[0]
    assert (columns[0].type.name, rows) == ("nvarchar", [("7", 1)])


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("DECLARE @i int = @v", 257),
        ("SELECT CAST(@v AS int)", 245),
        ("SET @v = CAST('a' AS varchar(max))", 206),
        ("SELECT 1 WHERE @v = 1", 50001),
        ("SELECT LEN(@v)", 50001),
        ("SELECT @v AS v ORDER BY v", 50001),
        ("SELECT @v AS v ORDER BY 1", 50001),
        ("SELECT DISTINCT @v AS v", 50001),
        ("SELECT @v AS v EXCEPT SELECT @v", 50001),
        ("SELECT @v AS v FOR JSON PATH", 50001),
        ("CREATE TABLE dbo.v (v sql_variant)", 50001),
        ("EXEC sp_executesql N'', N'@o sql_variant OUTPUT'", 50001),
        ("SELECT SQL_VARIANT_PROPERTY(@v, 'TotalBytes')", 50001),
    ],
)
def test_what_a_variant_is_not(side, statement, number):
    assert side.error(f"DECLARE @v sql_variant = 'abc'; {statement}").number == number

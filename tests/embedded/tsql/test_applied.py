"""Rows that depend on those of the tables before them: APPLY of a query, OPENJSON, STRING_SPLIT."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.embedded.tsql.sides import Side, World

SET_UP = """
CREATE TABLE dbo.orders (id int PRIMARY KEY, customer nvarchar(20), lines nvarchar(max));
INSERT dbo.orders VALUES (1, N'ann', N'[{"item":"pen","count":2},{"item":"ink"}]'), (2, N'bob', NULL), (3, N'ann', N'[]');
"""


@pytest.fixture(scope="module")
def side() -> Side:
    side = World().side("Here", "2022")
    side.run(SET_UP)
    return side


def test_cross_apply_leaves_rows_out_that_the_query_has_none_for(side):
    before = "(SELECT TOP (1) p.id FROM dbo.orders p WHERE p.customer = o.customer AND p.id < o.id ORDER BY p.id DESC)"
    assert side.rows(f"SELECT o.id, b.id FROM dbo.orders o CROSS APPLY {before} AS b") == [(3, 1)]
    outer = side.rows(f"SELECT o.id, b.id FROM dbo.orders o OUTER APPLY {before} AS b ORDER BY o.id")
    assert outer == [(1, None), (2, None), (3, 1)]


def test_a_later_apply_sees_an_earlier_one(side):
    twice = "CROSS APPLY (SELECT o.id * 2) AS a (n) CROSS APPLY (VALUES (a.n, N'x'), (a.n + 1, o.customer)) AS v (m, s)"
    rows = side.rows(f"SELECT v.m, v.s FROM dbo.orders o {twice} WHERE o.id < 3 ORDER BY v.m")
    assert rows == [(2, "x"), (3, "ann"), (4, "x"), (5, "bob")]
    halves = "SELECT a.f FROM dbo.orders o CROSS APPLY (SELECT o.id * 0.5e0 AS f) AS a WHERE a.f < 1"
    assert side.rows(halves) == [(0.5,)]


def test_apply_with_aggregates_and_a_common_table(side):
    rows = side.rows(
        "WITH c AS (SELECT id, customer FROM dbo.orders) SELECT o.id, x.n FROM dbo.orders o "
        "CROSS APPLY (SELECT COUNT(*) AS n FROM c WHERE c.customer = o.customer) x ORDER BY o.id"
    )
    assert rows == [(1, 2), (2, 1), (3, 2)]


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="'"), max_size=20)
VALUES = {
    "nvarchar(100)": (TEXTS, lambda value: f"N'{value}'"),
    "varbinary(50)": (st.binary(max_size=50), lambda value: f"0x{value.hex()}"),
    "float": (st.floats(allow_nan=False, allow_infinity=False), lambda value: f"CAST('{value!r}' AS float)"),
    "bigint": (st.integers(-(2**63), 2**63 - 1), lambda value: f"CAST('{value}' AS bigint)"),
}


@given(data=st.data())
@pytest.mark.parametrize("type_", VALUES)
def test_apply_gives_values_as_they_are(side, type_, data):
    strategy, written = VALUES[type_]
    values = data.draw(st.lists(st.none() | strategy, min_size=1, max_size=4))
    rows = ", ".join(f"({number}, {'NULL' if v is None else written(v)})" for number, v in enumerate(values))
    results = side.rows(
        f"DECLARE @t TABLE (n int, v {type_}); INSERT @t VALUES {rows}; "
        "SELECT a.v FROM @t t CROSS APPLY (SELECT u.v FROM @t u WHERE u.n = t.n) a ORDER BY t.n"
    )
    assert [value for (value,) in results] == values


# -- OPENJSON ----------------------------------------------------------------------------------------------------------


def test_openjson_shows_keys_values_and_types(side):
    text = '{"a":1.50,"b":[1,2],"c":null,"d":"x\\ny","e":true,"f":{"g":1}}'
    assert side.rows(f"SELECT * FROM OPENJSON(N'{text}')") == [
        *(("a", "1.50", 2), ("b", "[1,2]", 4), ("c", None, 0)),
        *(("d", "x\ny", 1), ("e", "true", 3), ("f", '{"g":1}', 5)),
    ]
    assert side.rows("SELECT [key], value FROM OPENJSON(N'[7,\"x\"]') AS j") == [("0", "7"), ("1", "x")]
    assert side.rows(f"DECLARE @path nvarchar(20) = N'$.b'; SELECT value FROM OPENJSON(N'{text}', @path)") == [
        ("1",),
        ("2",),
    ]
    assert side.rows("SELECT * FROM OPENJSON(NULL)") == []
    assert side.rows("SELECT * FROM OPENJSON(N'{\"a\":1}', '$.b')") == []


def test_openjson_with_columns(side):
    assert side.rows(
        "SELECT o.id, l.item, l.n, l.whole FROM dbo.orders o OUTER APPLY OPENJSON(o.lines) "
        "WITH (item nvarchar(10), n int '$.count', whole nvarchar(max) '$' AS JSON) AS l ORDER BY o.id, l.item DESC"
    ) == [
        *((1, "pen", 2, '{"item":"pen","count":2}'), (1, "ink", None, '{"item":"ink"}')),
        *((2, None, None, None), (3, None, None, None)),
    ]
    assert side.rows("SELECT * FROM OPENJSON(N'{\"a\":{\"b\":true}}') WITH (b bit '$.a.b')") == [(1,)]
    assert side.rows("SELECT * FROM OPENJSON(N'[1,2]') WITH (n int '$')") == [(1,), (2,)]


def test_openjson_of_the_query_around_it(side):
    counts = "SELECT id, (SELECT COUNT(*) FROM OPENJSON(lines)) FROM dbo.orders ORDER BY id"
    assert side.rows(counts) == [(1, 2), (2, 0), (3, 0)]


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=8) | st.integers() | st.booleans() | st.none(), max_size=5)
)
def test_openjson_has_each_member_of_an_object(side, members):
    text = json.dumps(members).replace("'", "''")
    expected = [
        (name, None if value is None else value if isinstance(value, str) else json.dumps(value))
        for name, value in members.items()
    ]
    assert [row[:2] for row in side.rows(f"SELECT [key], value FROM OPENJSON(N'{text}')")] == expected


# -- STRING_SPLIT ------------------------------------------------------------------------------------------------------


def test_string_split(side):
    assert side.rows("SELECT value FROM STRING_SPLIT('a,,b', ',')") == [("a",), ("",), ("b",)]
    assert side.rows("SELECT * FROM STRING_SPLIT(N'x y', N' ', 1) AS s (word, place)") == [("x", 1), ("y", 2)]
    assert side.rows("SELECT * FROM STRING_SPLIT(CAST(NULL AS varchar(5)), ',')") == []
    split = (
        "SELECT o.id FROM dbo.orders o CROSS APPLY STRING_SPLIT(o.customer, 'n') s WHERE s.value = 'a' ORDER BY o.id"
    )
    assert side.rows(split) == [(1,), (3,)]


REFUSED = {
    "SELECT * FROM OPENJSON(N'{x')": 13609,
    "SELECT * FROM OPENJSON(N'{}', 'strict $.a')": 13608,
    "SELECT * FROM OPENJSON(N'{}', 'a')": 13607,
    "SELECT * FROM OPENJSON(N'{}') WITH (a int AS JSON)": 13618,
    'SELECT * FROM OPENJSON(N\'{"a":"x"}\') WITH (a int)': 245,
    "SELECT * FROM STRING_SPLIT('a', ',,')": 214,
    "SELECT * FROM STRING_SPLIT('a')": 189,
    "SELECT * FROM dbo.orders CROSS APPLY (SELECT 1) AS x": 8155,
    "SELECT * FROM dbo.orders CROSS APPLY (SELECT 1)": 102,
    "SELECT * FROM dbo.orders CROSS APPLY (SELECT 1 AS a, 2 AS a) AS x": 8156,
    "SELECT * FROM OPENJSON(N'{}') AS j (a)": 8159,
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(side, text):
    assert side.error(text).number == REFUSED[text]

"""FOR JSON, JSON_VALUE, JSON_QUERY and ISJSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.tsql.translation.functions import json_functions

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def test_rows_are_objects_with_values_of_their_types(side) -> None:
    side.run("CREATE TABLE j (id int, v nvarchar(9), b bit, d datetime, f float, m decimal(5, 2), n varbinary(4))")
    side.run(
        "INSERT j VALUES (1, N'x/\"', 1, '20200102 03:04:05', 1.5, 2.5, 0x0102), (2, NULL, 0, NULL, NULL, NULL, NULL)"
    )
    assert side.value("SELECT (SELECT * FROM j FOR JSON AUTO)") == (
        '[{"id":1,"v":"x\\/\\"","b":true,"d":"2020-01-02T03:04:05","f":1.500000000000000e+000,"m":2.50,"n":"AQI="},'
        '{"id":2,"b":false}]'
    )
    assert side.value(
        "SELECT (SELECT id AS [o.id], v AS [o.v] FROM j WHERE id = 2 FOR JSON PATH, ROOT('r'), INCLUDE_NULL_VALUES)"
    ) == ('{"r":[{"o":{"id":2,"v":null}}]}')
    assert side.value(
        "SELECT (SELECT 1 AS a, (SELECT id FROM j FOR JSON PATH) AS b, JSON_QUERY(N'[1, 2]') AS c FOR JSON PATH, WITHOUT_ARRAY_WRAPPER)"
    ) == ('{"a":1,"b":[{"id":1},{"id":2}],"c":[1, 2]}')
    assert side.rows("SELECT id FROM j WHERE id > 9 FOR JSON PATH") == []


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("1 FOR JSON PATH", 13605),
        ("1 AS a, 2 AS [a.b] FOR JSON PATH", 13601),
        ("1 AS a FOR JSON AUTO", 13600),
        ("1 AS a FOR JSON PATH, ROOT('x'), WITHOUT_ARRAY_WRAPPER", 13620),
        ("x.a FROM (SELECT 1 AS a) AS x, (SELECT 1 AS b) AS y FOR JSON AUTO", 50001),
        ("JSON_VALUE(N'{\"a\":1', '$.a')", 13609),
        ("JSON_VALUE(N'{}', 'a')", 13607),
        ("JSON_VALUE(N'{}', 'strict $.a')", 13608),
        ("JSON_VALUE(N'{\"a\":[]}', 'strict $.a')", 13623),
        ("JSON_QUERY(N'{\"a\":1}', 'strict $.a')", 13624),
        ("1 AS a FOR BROWSE", 50001),
    ],
)
def test_what_json_refuses(side, query: str, number: int) -> None:
    assert side.error(f"SELECT {query}").number == number


def test_a_path_finds_values_as_they_are_written(side) -> None:
    text = '{"a": {"b c": [true, null, 1.50, "t\\u00e4", {"x" : 1}]}}'
    for path, value in {"[0]": "true", "[1]": None, "[2]": "1.50", "[3]": "tä", "[4]": None, "[9]": None}.items():
        assert side.value(f"SELECT JSON_VALUE(N'{text}', '$.a.\"b c\"{path}')") == value
    assert side.value(f"SELECT JSON_QUERY(N'{text}', 'lax $.a.\"b c\"[4]')") == '{"x" : 1}'
    assert side.rows("SELECT ISJSON('{}'), ISJSON('1'), ISJSON('[NaN]'), ISJSON(NULL)") == [(1, 0, 0, None)]


@given(document=st.lists(JSON) | st.dictionaries(st.text(), JSON), indent=st.none() | st.integers(0, 2), data=st.data())
def test_every_value_of_a_document_is_found_by_its_path(document: Any, indent: int | None, data: st.DataObject) -> None:
    text, path, value = json.dumps(document, indent=indent), "$", document
    while isinstance(value, list | dict) and value and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(range(len(value)) if isinstance(value, list) else sorted(value)))
        value, path = value[key], path + (f"[{key}]" if isinstance(key, int) else f".{json.dumps(key)}")
    if isinstance(value, list | dict):
        assert json.loads(json_functions._json_query(text, path) or "") == value
        assert json_functions._json_value(text, path) is None
    else:
        shown = value if isinstance(value, str) or value is None else json.dumps(value)
        assert json_functions._json_value(text, path) == (shown if shown is None or len(shown) <= 4000 else None)

"""The line of each key of a TOML file."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from harness.files.toml_file import Lines, keys

NOISE = st.sampled_from(["", "   ", "# [fake]", "# key = 1", "\t# x = '''", "#"])
NAMES = st.sampled_from(["a", "b", "host", "port", '"quoted key"', "'[odd]'", '"x = 1"', "a-b", "1"])
VALUES = st.sampled_from(
    [
        "1",
        '"text"',
        "'[table]'",
        "[1, 2]",
        "{ inner = 1 }",
        '"# no comment"',
        '"""\n[fake]\nhost = 1\n"""',
        "'''\nport = '1'\n'''",
        "[\n  1, # one\n  2,\n]",
        '[\n  { deep = "a" },\n  { deep = "b" },\n]',
        "1979-05-27",
        '"\\u0085 \x85 \u2028"',
    ]
)
TABLES = st.sampled_from(["[one]", "[two]", "[one.sub]", "[[many]]", '[ "od[d" ]', "[[many.below]]"])


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[int, str]]:
    """TOML as people write it, and the lines on which keys and tables begin."""
    lines: list[str] = []
    places: dict[int, str] = {}
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["noise", "key", "key", "table"]))
        if kind == "noise":
            lines.append(draw(NOISE))
            continue
        piece = draw(TABLES) if kind == "table" else f"{draw(NAMES)} = {draw(VALUES)}"
        try:
            tomllib.loads("\n".join([*lines, piece]))
        except tomllib.TOMLDecodeError:
            continue  # a key given twice
        places[len(lines) + 1] = piece
        lines += piece.split("\n")
    return "\n".join(lines), places


@given(documents())
def test_every_key_is_found_on_the_line_where_it_begins(document: tuple[str, dict[int, str]]):
    text, places = document
    lines = Lines(text)
    found = {key: lines.of(key) for key in keys(tomllib.loads(text))}
    assert set(found.values()) <= set(places)
    for key, line in found.items():
        piece = places[line]
        named = next(part for part in reversed(key) if isinstance(part, str))
        assert named in piece
    for line, piece in places.items():
        if not piece.startswith("["):
            assert line in found.values()


@given(documents(), st.lists(st.sampled_from(["one", "absent", 0]), max_size=3))
def test_a_missing_key_has_the_line_of_its_table(document: tuple[str, dict[int, str]], key: list[str | int]):
    text, places = document
    assert Lines(text).of([*key, "absent"]) in {1, *places}

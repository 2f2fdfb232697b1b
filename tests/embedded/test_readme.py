"""harness/embedded/README.md lists what the code has."""

import re
from pathlib import Path

from harness.embedded.tsql.catalog import INFORMATION_SCHEMA, TABLE_FUNCTIONS, VIEWS
from harness.embedded.tsql.instance.system_procedures import TEXTS
from harness.embedded.tsql.statements.dbcc import COMMANDS
from harness.embedded.tsql.translation.functions import FUNCTIONS

README = (Path(__file__).parents[2] / "harness" / "embedded" / "README.md").read_text(encoding="utf-8")


def listed(after: str, before: str) -> list[str]:
    """The words in backticks between two phrases."""
    return re.findall(r"`([\w.]+)`", README.split(after, 1)[1].split(before, 1)[0])


def test_the_readme_lists_every_view():
    found = listed("administrator connection:", "Functions that return a table")
    assert sorted(found) == sorted(VIEWS)
    assert found[-3:] == [name for name in sorted(VIEWS) if VIEWS[name].is_base_table]


def test_the_readme_lists_every_function_that_returns_a_table():
    assert sorted(listed("Functions that return a table:", "**Functions**")) == sorted(TABLE_FUNCTIONS)


def test_the_readme_lists_every_function():
    assert sorted(listed("**Functions**:", "**Catalog procedures**")) == sorted(FUNCTIONS)


def test_the_readme_lists_every_catalog_procedure():
    names = {name.removesuffix("_90").removesuffix("_100") for name in TEXTS}
    assert sorted(listed("**Catalog procedures**", "**The type xml**")) == sorted(names)


def test_the_readme_names_every_dbcc_command():
    named = README.split("every DBCC but ", 1)[1].split("\n", 1)[0]
    assert sorted(re.findall(r"[A-Z]+", named)) == sorted(COMMANDS)


def test_the_readme_lists_every_view_of_the_information_schema():
    found = listed("**Views of INFORMATION_SCHEMA**:", "**Views**")
    assert sorted(name.lower() for name in found) == sorted(INFORMATION_SCHEMA)

"""Extended properties of databases."""

from __future__ import annotations

PROPERTIES = "SELECT name, value FROM sys.extended_properties WHERE class = 0 ORDER BY name;"


def test_a_property_belongs_to_one_database_and_can_be_added_once(side):
    side.run("EXEC sys.sp_addextendedproperty @name = N'mark', @value = N'made';")
    assert side.rows(PROPERTIES) == [("mark", "made")]
    assert side.rows("USE master; " + PROPERTIES) == []
    side.run("USE db;")
    assert side.error("EXEC sp_addextendedproperty N'MARK', N'again';").number == 15233


def test_a_rollback_removes_an_added_property(side):
    side.run("BEGIN TRAN; EXEC sys.sp_addextendedproperty N'a', N'1'; ROLLBACK;")
    assert side.rows(PROPERTIES) == []


def test_a_property_survives_a_crash_and_is_dropped_with_its_database(side):
    side.run("EXEC sys.sp_addextendedproperty N'a', N'1';")
    side.crash()
    assert side.rows("USE db; " + PROPERTIES) == [("a", "1")]
    side.run("USE master; DROP DATABASE db; CREATE DATABASE db; USE db;")
    assert side.rows(PROPERTIES) == []


def test_parts_of_a_database_cannot_have_properties(side):
    error = side.error("EXEC sys.sp_addextendedproperty N'a', N'1', N'SCHEMA', N'dbo';")
    assert "extended property of something inside a database" in error.text


def test_one_batch_can_create_a_database_and_add_a_property_to_it(side):
    side.run("CREATE DATABASE made; EXECUTE (N'USE made; EXEC sys.sp_addextendedproperty N''mark'', N''made'';');")
    assert side.value("SELECT DB_NAME();") == "db"
    assert side.rows("USE made; " + PROPERTIES) == [("mark", "made")]

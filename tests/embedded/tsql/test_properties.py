"""Extended properties: notes on a database."""

from __future__ import annotations

NOTES = "SELECT name, value FROM sys.extended_properties WHERE class = 0 ORDER BY name;"


def test_a_property_belongs_to_its_database_and_is_there_once(side):
    side.run("EXEC sys.sp_addextendedproperty @name = N'mark', @value = N'made';")
    assert side.rows(NOTES) == [("mark", "made")]
    assert side.rows("USE master; " + NOTES) == []
    side.run("USE db;")
    assert side.error("EXEC sp_addextendedproperty N'MARK', N'again';").number == 15233


def test_a_property_goes_with_the_transaction(side):
    side.run("BEGIN TRAN; EXEC sys.sp_addextendedproperty N'a', N'1'; ROLLBACK;")
    assert side.rows(NOTES) == []


def test_a_property_is_there_after_a_crash_and_gone_with_its_database(side):
    side.run("EXEC sys.sp_addextendedproperty N'a', N'1';")
    side.crash()
    assert side.rows("USE db; " + NOTES) == [("a", "1")]
    side.run("USE master; DROP DATABASE db; CREATE DATABASE db; USE db;")
    assert side.rows(NOTES) == []


def test_parts_of_a_database_have_none(side):
    error = side.error("EXEC sys.sp_addextendedproperty N'a', N'1', N'SCHEMA', N'dbo';")
    assert "extended property of something inside a database" in error.text


def test_a_database_is_made_and_marked_in_one_batch(side):
    side.run("CREATE DATABASE made; EXECUTE (N'USE made; EXEC sys.sp_addextendedproperty N''mark'', N''made'';');")
    assert side.value("SELECT DB_NAME();") == "db"
    assert side.rows("USE made; " + NOTES) == [("mark", "made")]

"""Cursors."""

from __future__ import annotations


def test_a_cursor_fetches_its_rows_in_order(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2)")
    text = """
        DECLARE @n int, @s nvarchar(10) = N'';
        DECLARE c CURSOR FOR SELECT n FROM dbo.t;
        OPEN c;
        FETCH NEXT FROM c INTO @n;
        WHILE @@FETCH_STATUS = 0
        BEGIN
            SELECT @s = @s + CONVERT(nvarchar(10), @n);
            IF @n = 9 CONTINUE;
            FETCH c INTO @n;
        END
        CLOSE c DEALLOCATE c
        SELECT @s"""
    assert side.value(text) == "12"
    assert side.value(text) == "12"

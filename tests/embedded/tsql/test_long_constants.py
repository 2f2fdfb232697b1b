"""Constants of any length: they have the same meaning as short ones, and nothing keeps them when the statement is over."""

import ctypes
import gc
import os
from pathlib import Path

import pytest

LONG = "x" * 5000


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        (f"SELECT DATALENGTH(0x{'AB' * 5000})", 5000),
        (f"SELECT SUBSTRING(0x{'AB' * 5000}, 5000, 2)", b"\xab"),
        (f"SELECT LEN(N'{LONG}  ')", 5000),
        (f"SELECT COUNT(*) WHERE '{LONG} ' = N'{LONG.upper()}'", 1),
        (f"SELECT COUNT(*) WHERE '{LONG} ' IN ('{LONG}y', N'{LONG}')", 1),
        (f"SELECT COUNT(*) WHERE '{LONG}' IN (SELECT 'a' UNION ALL SELECT N'{LONG}')", 1),
        (f"SELECT COUNT(*) WHERE '{LONG}' LIKE '{LONG[1:]}_'", 1),
        (f"SELECT COUNT(*) FROM (SELECT '{LONG}' AS a UNION SELECT '{LONG.upper()}') AS u", 1),
        (f"SELECT CASE WHEN 1 = 1 THEN '{LONG}' ELSE N'' END", LONG),
        (f"SELECT CAST('{LONG}' AS varchar(4999)) + ''", LONG[1:]),
        (f"DECLARE @w nvarchar(max) = N'{LONG}'; SELECT @w + N'{LONG}'", LONG * 2),
        (f"EXEC sp_executesql N'SELECT ''{LONG}'''", LONG),
        (f"CREATE TABLE dbo.w (a varchar(max) DEFAULT '{LONG}', b int); INSERT dbo.w (b) VALUES (1); SELECT a FROM dbo.w", LONG),
        (f"CREATE TABLE dbo.w (a varchar(max)); INSERT dbo.w VALUES ('{LONG}'); UPDATE dbo.w SET a = '{LONG}y'; SELECT a FROM dbo.w", LONG + "y"),
    ],
)  # fmt: skip
def test_a_long_constant_has_the_value_of_its_text(side, statement, value):
    results = side.results(statement)
    assert [error.number for error in results.errors] == []
    assert results.sets[-1][1] == [(value,)]


def kept_bytes() -> int:
    """Memory of this process without garbage: compiled statements are cyclic, and glibc keeps what was freed."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.in_process
def test_no_constant_is_kept_when_its_statement_is_over(side):
    side.run("CREATE TABLE dbo.w (a nvarchar(max))")
    before = kept_bytes()
    for number in range(100):
        constant = str(number).rjust(1_000_000, "x")
        side.run(f"INSERT dbo.w VALUES (N'{constant}'); DELETE dbo.w WHERE a = N'{constant}'")
    assert kept_bytes() - before < 100_000_000

/*
Purpose:   the time on the instance's machine.
Called by: the doctor, on every instance; the sweep, on the target, before and after each cell.
Assumes:   the difference to another clock is uncertain by half the duration of the query, and by half a tick of this one:
           on Windows it may stand still for 15.6 ms.
Variables: none
Columns:   utc_ns (bigint, ns since 1970-01-01 UTC; datetime2 counts in 100 ns)
*/
SELECT DATEDIFF_BIG(NANOSECOND, CAST(N'1970-01-01T00:00:00' AS datetime2(7)), SYSUTCDATETIME()) AS utc_ns;
GO

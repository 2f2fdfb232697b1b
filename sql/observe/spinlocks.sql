/*
Purpose:   contention for spinlocks since the instance started; the difference of two readings is that of a cell.
Called by: the sampler, before and after each cell, on every instance.
Assumes:   VIEW SERVER STATE. A collision is an attempt to take a spinlock that another thread holds, a spin one round of
           the loop that tries again, a backoff a thread that gave up and yielded its scheduler.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-os-spinlock-stats-transact-sql
Variables: none
Columns:   spinlock, collisions, spins, backoffs, sleep_ms (all bigint)
*/
SELECT name AS spinlock, collisions, spins, backoffs, sleep_time AS sleep_ms
FROM sys.dm_os_spinlock_stats
WHERE collisions > 0
ORDER BY spins DESC, name;

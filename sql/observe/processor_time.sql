/*
Purpose:   the processor time that the instance has used since it started; the difference of two readings is a cell's.
Called by: the sampler, once a second, on every instance.
Assumes:   VIEW SERVER STATE. Divided by wall time and cpu_count, the difference is the utilisation.
Variables: none
Columns:   processor_time_ms (bigint), cpu_count (int: logical processors)
*/
SELECT process_user_time_ms + process_kernel_time_ms AS processor_time_ms, cpu_count
FROM sys.dm_os_sys_info;

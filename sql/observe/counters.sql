/*
Purpose:   Service Broker's performance counters, and those of this database's transactions and log.
Called by: the sampler, once a second, on every instance.
Assumes:   VIEW SERVER STATE. Counters whose name ends in /sec hold running totals (counter_type 272696576): the rate is
           the difference of two samples. Write Transactions/sec counts transactions that wrote to the database and
           committed, of the broker's own tasks too; Log Flush Wait Time is in ms. Averages and fractions, which are the
           quotient of two counters (types 1073874176 and 537003264, and 1073939712 of the other), are left out.
           https://learn.microsoft.com/sql/relational-databases/performance-monitor/sql-server-databases-object
Variables: none
Columns:   counter_object (without the instance's prefix), counter_name, instance_name, counter_value (bigint),
           counter_type (int)
*/
SELECT
    RTRIM(SUBSTRING(object_name, CHARINDEX(N':', object_name) + 1, 128)) AS counter_object,
    RTRIM(counter_name) AS counter_name,
    RTRIM(instance_name) AS instance_name,
    cntr_value AS counter_value,
    cntr_type AS counter_type
FROM sys.dm_os_performance_counters
WHERE cntr_type NOT IN (537003264, 1073874176, 1073939712)
    AND
    (
        object_name LIKE N'%Broker%'
        OR
        (
            object_name LIKE N'%:Databases%'
            AND instance_name = DB_NAME()
            AND counter_name IN
            (
                N'Log Bytes Flushed/sec',
                N'Log Flush Wait Time',
                N'Log Flush Waits/sec',
                N'Log Flushes/sec',
                N'Transactions/sec',
                N'Write Transactions/sec'
            )
        )
    )
ORDER BY counter_object, counter_name, instance_name;

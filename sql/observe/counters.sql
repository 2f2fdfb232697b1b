/*
Purpose:   Service Broker's performance counters.
Called by: the sampler, once a second, on every instance.
Assumes:   VIEW SERVER STATE. Counters whose name ends in /sec hold running totals (counter_type 272696576): the rate is
           the difference of two samples.
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
WHERE object_name LIKE N'%Broker%'
ORDER BY counter_object, counter_name, instance_name;

/*
Purpose:   where the messages of the transmission queue shall go, and why they have not gone.
Called by: harness monitors, when it begins and now and then, in databases whose transmission queue has rows.
Assumes:   db_owner: others see no row and no error. It looks at no more than Limit rows. A blank status means not tried
           yet, or sent and waiting for the acknowledgement.
           https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-transmission-queue-transact-sql
Variables: Limit (bigint)
Columns:   from_service, to_service, to_broker_instance, transmission_status, messages (bigint), oldest_s (int: seconds)
*/
SELECT
    x.from_service_name AS from_service,
    x.to_service_name AS to_service,
    x.to_broker_instance,
    x.transmission_status,
    COUNT_BIG(*) AS messages,
    MAX(DATEDIFF(SECOND, x.enqueue_time, GETUTCDATE())) AS oldest_s
FROM
(
    SELECT TOP ($(Limit))
        q.from_service_name, q.to_service_name, q.to_broker_instance, q.transmission_status, q.enqueue_time
    FROM sys.transmission_queue AS q
) AS x
GROUP BY x.from_service_name, x.to_service_name, x.to_broker_instance, x.transmission_status
ORDER BY messages DESC, to_service;
GO

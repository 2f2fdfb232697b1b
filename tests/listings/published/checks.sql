-- What administrators ask a broker that does not deliver.
CREATE QUEUE dbo.first; CREATE QUEUE dbo.second; CREATE SERVICE s ON QUEUE dbo.second ([DEFAULT]);
DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 'nobody' WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h (N'x');
GO
waitfor delay '00:00:01'
select 'Status' = get_transmission_status('7B62823B-7636-EC11-99B8-401C83FC5BA6')
select * from sys.conversation_endpoints
where not (state= 'CD' and security_timestamp <= dateadd(minute, 31, getutcdate()))
select * from sys.service_queues where (is_enqueue_enabled = 0 or is_receive_enabled = 0)
select
     security_timestamp
    ,is_initiator
    ,s.name as 'local_service'
    ,far_service
    ,sc.name 'contract'
    ,state_desc
    ,get_transmission_status (conversation_handle) as transmission__status
from sys.conversation_endpoints ce
left join sys.services s
    on ce.service_id = s.service_id
left join sys.service_contracts sc
    on ce.service_contract_id = sc.service_contract_id
order by 7 desc
select at.spid, db_name(at.database_id) as dbName, at.procedure_name, s.login_time, s.status
from sys.dm_broker_activated_tasks at
inner join sys.dm_exec_sessions s
    on at.spid = s.session_id
select
 case x.message_type_name
    when 'X' then cast(x.message_body as nvarchar(max))
    else cast(x.message_body as nvarchar(4000))
 end as message_body
,x.validation
from
(
    select message_enqueue_time, status, message_body, message_type_name, validation from dbo.first with(nolock)

    union all

    select message_enqueue_time, status, message_body, message_type_name, validation from dbo.second with(nolock)
) x
go
SELECT t1.name AS [Service],  t3.name AS [Schema],
CASE WHEN t4.state IS NULL THEN 'Not available'
ELSE t4.state
END AS [Queue_State],
CASE WHEN t4.tasks_waiting IS NULL THEN '--'
ELSE CONVERT(VARCHAR, t4.tasks_waiting)
END AS tasks_waiting,
CASE WHEN t4.last_activated_time IS NULL THEN '--'
ELSE CONVERT(varchar, t4.last_activated_time)
END AS last_activated_time ,
( SELECT COUNT(*)
FROM sys.transmission_queue t6
WHERE (t6.from_service_name = t1.name) ) AS [Waiting]
FROM sys.services t1    INNER JOIN sys.service_queues t2
ON ( t1.service_queue_id = t2.object_id )
INNER JOIN sys.schemas t3 ON ( t2.schema_id = t3.schema_id )
LEFT OUTER JOIN sys.dm_broker_queue_monitors t4
ON ( t2.object_id = t4.queue_id  AND t4.database_id = DB_ID() )
INNER JOIN sys.databases t5 ON ( t5.database_id = DB_ID() );
SELECT conversation_id, to_service_name, hops_remaining, time_to_live, time_consumed FROM sys.dm_broker_forwarded_messages
SELECT connection_id, state_desc, login_state_desc, peer_certificate_id, encryption_algorithm_desc, receives_posted, is_receive_flow_controlled, total_bytes_sent, peer_arbitration_id FROM sys.dm_broker_connections
SELECT DB_NAME(database_id) AS [Database], COUNT(*) FROM sys.dm_broker_queue_monitors GROUP BY DB_NAME(database_id)
SELECT TOP 20 state_desc, COUNT(*) AS n, MIN(security_timestamp) AS oldest
FROM sys.conversation_endpoints WITH (NOLOCK) GROUP BY state_desc HAVING COUNT(*) > 0 ORDER BY COUNT(*) DESC
SELECT q.name, p.rows FROM sys.objects AS o JOIN sys.partitions AS p ON p.object_id = o.object_id JOIN sys.objects AS q ON o.parent_object_id = q.object_id WHERE q.name = 'first' AND p.index_id = 1
SELECT name, CASE is_broker_enabled WHEN 1 THEN 'Enabled' ELSE 'Disabled' END AS [Broker] FROM sys.databases WHERE database_id > 4 ORDER BY name
SELECT object_name, counter_name, instance_name, cntr_value FROM sys.dm_os_performance_counters WHERE object_name LIKE '%Broker%'
SELECT c.name, m.name, u.is_sent_by_initiator FROM sys.services s CROSS JOIN sys.service_contracts c
INNER JOIN sys.service_contract_usages cu ON cu.service_id = s.service_id AND cu.service_contract_id = c.service_contract_id
INNER JOIN sys.service_contract_message_usages u ON u.service_contract_id = c.service_contract_id
INNER JOIN sys.service_message_types m ON m.message_type_id = u.message_type_id
WHERE s.name NOT LIKE 'http://%'
if @@rowcount <> 1 or (select count(*) from sys.conversation_endpoints where get_transmission_status(conversation_handle) <> '') <> 1 throw 50000, 'no status', 1;
go

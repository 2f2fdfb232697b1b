/*
Purpose:   the probe's dialogs that have arrived, and the messages that no procedure has received yet.
Called by: the doctor, on the target, until the probe is over.
Assumes:   probe_service.sql has run.
Variables: Database (name of the target's database)
Columns:   far_broker_instance (nvarchar(128): of the initiator), waiting (int: rows of the probe's queue, in each row)
*/
USE [$(Database)];
GO

SELECT
    e.far_broker_instance,
    (SELECT COUNT(*) FROM dbo.MySSBLabProbeQueue WITH (NOLOCK)) AS waiting
FROM sys.conversation_endpoints AS e
JOIN sys.services AS s ON s.service_id = e.service_id
WHERE s.name = N'//MySSB.com/Lab/S_Probe' AND e.is_initiator = 0;
GO

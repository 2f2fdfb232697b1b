/*
Purpose:   sends a probe message to the target.
Called by: the doctor, on an initiator, once a preflight.
Assumes:   probe_service.sql has run on both sides, route and binding exist. If nobody ends the dialog, it expires after
           a day: not sooner, because the target may judge that by a clock of its own.
Variables: Database (name of the initiator's database), LocalName (name of the initiator in the lab),
           BrokerInstance (service_broker_guid of the target's database), Encryption (ON or OFF)
*/
USE [$(Database)];
GO

SET NOCOUNT ON;
DECLARE @handle uniqueidentifier;

IF N'$(Encryption)' = N'ON'
    BEGIN DIALOG @handle
        FROM SERVICE [//MySSB.com/Lab/S_Probe]
        TO SERVICE N'//MySSB.com/Lab/S_Probe', N'$(BrokerInstance)'
        ON CONTRACT [DEFAULT]
        WITH LIFETIME = 86400, ENCRYPTION = ON;
ELSE
    BEGIN DIALOG @handle
        FROM SERVICE [//MySSB.com/Lab/S_Probe]
        TO SERVICE N'//MySSB.com/Lab/S_Probe', N'$(BrokerInstance)'
        ON CONTRACT [DEFAULT]
        WITH LIFETIME = 86400, ENCRYPTION = OFF;

SEND ON CONVERSATION @handle MESSAGE TYPE [DEFAULT] (CAST(N'$(LocalName)' AS varbinary(256)));
GO

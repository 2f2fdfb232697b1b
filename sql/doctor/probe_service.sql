/*
Purpose:   a service of the doctor's own beside the lab's: a probe message must not be counted by the activation
           procedure of the lab's queue. The contract is DEFAULT, which every database has.
Called by: the doctor, on every instance, after probe_drop.sql.
Assumes:   neither exists. Owned by dbo like the lab's service, so dialogs are secured by the same certificate.
Variables: Database (name of the side's database)
*/
USE [$(Database)];
GO

CREATE QUEUE [dbo].[MySSBLabProbeQueue]
    WITH STATUS = ON, RETENTION = OFF
    ON [PRIMARY];
GO

CREATE SERVICE [//MySSB.com/Lab/S_Probe] AUTHORIZATION [dbo]
    ON QUEUE [dbo].[MySSBLabProbeQueue] ([DEFAULT]);
GO

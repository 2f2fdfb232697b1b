/*
Purpose:   a service for the doctor beside the lab's, because the activation procedure of the lab's queue would count a
           probe message. The contract is DEFAULT, which every database has.
Called by: the doctor, on every instance, after probe_drop.sql.
Assumes:   neither queue nor service exists. dbo owns both, as in the lab, so the same certificate secures dialogs.
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

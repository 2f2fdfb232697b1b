/*
Purpose:   dbo.CreateDialogs begins @used_dialogs x @dialog_ratio dialogs and stores every @dialog_ratio-th of them
           in dbo.dialogs with ids 1, 2, ... A page of sys.sysdesend holds 144 dialogs in handle order, so with a
           ratio of 150 no two stored dialogs share a page: the 150 trick. A ratio of 1 stores all of them.
Called by: the lab, once per pool, right after reset/broker.sql and link/route.sql.
Assumes:   handles are issued in ascending order, which the order of the loop relies on (observe/dialog_pages.sql
           shows whether they were). Dialogs of an earlier pool are forgotten here but not ended: reset/broker.sql
           does that. Nothing else begins dialogs in this database meanwhile.
Variables: Database (name of the initiator's database), Encryption (ON as in the paper, or OFF)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.CreateDialogs
    @used_dialogs int,
    @dialog_ratio int,
    @service_broker_guid uniqueidentifier
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    DECLARE @begun int;
    DECLARE @handle uniqueidentifier;

    TRUNCATE TABLE dbo.dialogs;

    SET @begun = 0;
    BEGIN TRANSACTION;
    WHILE @begun < @used_dialogs * @dialog_ratio
    BEGIN
        IF N'$(Encryption)' = N'ON'
            BEGIN DIALOG @handle
                FROM SERVICE [//MySSB.com/Lab/S_Test]
                TO SERVICE N'//MySSB.com/Lab/S_Test', @service_broker_guid
                ON CONTRACT [//MySSB.com/Lab/C_Test]
                WITH ENCRYPTION = ON;
        ELSE
            BEGIN DIALOG @handle
                FROM SERVICE [//MySSB.com/Lab/S_Test]
                TO SERVICE N'//MySSB.com/Lab/S_Test', @service_broker_guid
                ON CONTRACT [//MySSB.com/Lab/C_Test]
                WITH ENCRYPTION = OFF;

        SET @begun = @begun + 1;
        IF @begun % @dialog_ratio = 0
            INSERT INTO dbo.dialogs (id, handle) VALUES (@begun / @dialog_ratio, @handle);

        -- Each dialog locks its conversation group until the commit, so commit before there are too many locks.
        IF @begun % 1000 = 0
        BEGIN
            COMMIT TRANSACTION;
            BEGIN TRANSACTION;
        END;
    END;
    COMMIT TRANSACTION;
END;
GO

/*
Purpose:   dbo.CreateDialogs begins @dialogs dialogs and stores all of them in dbo.dialogs with ids 1, 2, ... in the order
           in which they were begun. A page of sys.sysdesend holds 144 dialogs in handle order, so no two of every 150th
           share a page: the 150 trick. Clients of dialog ratio r use the dialogs whose id is a multiple of r.
Called by: the lab, once per pool, right after reset/broker.sql and link/route.sql.
Assumes:   handles are issued in ascending order, which the order of the loop relies on (observe/dialog_pages.sql
           shows whether they were). Dialogs of an earlier pool are forgotten here but not ended: reset/broker.sql
           does that. Nothing else begins dialogs in this database meanwhile.
Variables: Database (name of the initiator's database), Encryption (ON as in the paper, or OFF),
           Contract (name of the contract),
           Service (name of this side's service),
           TargetService (name of the target's service)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.CreateDialogs
    @dialogs int,
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
    WHILE @begun < @dialogs
    BEGIN
        IF N'$(Encryption)' = N'ON'
            BEGIN DIALOG @handle
                FROM SERVICE [$(Service)]
                TO SERVICE N'$(TargetService)', @service_broker_guid
                ON CONTRACT [$(Contract)]
                WITH ENCRYPTION = ON;
        ELSE
            BEGIN DIALOG @handle
                FROM SERVICE [$(Service)]
                TO SERVICE N'$(TargetService)', @service_broker_guid
                ON CONTRACT [$(Contract)]
                WITH ENCRYPTION = OFF;

        SET @begun = @begun + 1;
        INSERT INTO dbo.dialogs (id, handle) VALUES (@begun, @handle);

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

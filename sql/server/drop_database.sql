/*
Purpose:   drops the database of one side, and with it the ledger.
Called by: harness lab clean, and an opening that failed, on a user's own servers, as the last step on an instance.
Assumes:   the harness created it (its mark says so), and everything else that the ledger listed was dropped. Sessions
           in the database are disconnected.
Variables: Database (name of the side's database)
*/
USE [master];
GO

IF DB_ID(N'$(Database)') IS NULL
    SET NOEXEC ON;
GO

ALTER DATABASE [$(Database)] SET SINGLE_USER WITH ROLLBACK IMMEDIATE;
DROP DATABASE [$(Database)];
GO

SET NOEXEC OFF;
GO

/*
Purpose:   writes one object into the ledger, but not a master key of master that exists already: it is not the harness's.
Called by: the harness on a user's own servers, before the object is created: only listed objects are removed.
Assumes:   ledger.sql has run.
Variables: Database (name of the side's database),
           Class (database, endpoint, login, user, certificate or master key; the last three are master's; in capitals, as
           DROP writes it, of an object in this database),
           Name (name of the object)
*/
USE [$(Database)];
GO

IF NOT EXISTS (SELECT 1 FROM dbo.harness_ledger WHERE class = N'$(Class)' AND name = N'$(Name)')
    AND (N'$(Class)' <> N'master key' OR NOT EXISTS (SELECT 1 FROM master.sys.symmetric_keys WHERE name = N'$(Name)'))
    INSERT INTO dbo.harness_ledger (class, name) VALUES (N'$(Class)', N'$(Name)');
GO

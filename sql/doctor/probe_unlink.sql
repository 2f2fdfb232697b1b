/*
Purpose:   removes the probe's route to another side, and its binding.
Called by: the doctor, on every instance, once per other side, before and after a probe, whatever its outcome.
Assumes:   nothing: objects that do not exist are skipped.
Variables: Database (name of this side's database), RemoteName (name of the other side in the lab)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.routes WHERE name = N'Probe_$(RemoteName)')
    DROP ROUTE [Probe_$(RemoteName)];
GO

IF EXISTS (SELECT 1 FROM sys.remote_service_bindings WHERE name = N'Probe_$(RemoteName)')
    DROP REMOTE SERVICE BINDING [Probe_$(RemoteName)];
GO

/*
Purpose:   the power plan of Windows, on which the speed of processors between bursts of work depends.
Called by: the sweep, when a lab opens, for the manifest; the doctor, on every instance.
Assumes:   nothing. sys.dm_server_registry shows the instance's own keys alone, so the plan is read with xp_regread, which
           the manual does not describe: a plan that a group policy sets, else the machine's. Public may execute it, but
           Windows or an administrator may refuse a login that is not sysadmin: then `refused` says why. On Linux there
           is no plan, and nothing is read.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-server-registry-transact-sql
           https://learn.microsoft.com/troubleshoot/windows-server/performance/slow-performance-when-using-power-plan
Variables: none
Columns:   power_plan (a GUID; NULL: unknown, or not Windows), refused (NULL: nothing was)
*/
DECLARE @plan nvarchar(64);
DECLARE @refused nvarchar(2048);
IF @@VERSION LIKE N'%on Windows%'
BEGIN
    BEGIN TRY
        EXECUTE master.sys.xp_regread N'HKEY_LOCAL_MACHINE', N'SOFTWARE\Policies\Microsoft\Power\PowerSettings',
            N'ActivePowerScheme', @plan OUTPUT, N'no_output';
        IF @plan IS NULL
            EXECUTE master.sys.xp_regread N'HKEY_LOCAL_MACHINE', N'SYSTEM\CurrentControlSet\Control\Power\User\PowerSchemes',
                N'ActivePowerScheme', @plan OUTPUT, N'no_output';
    END TRY
    BEGIN CATCH
        SET @refused = ERROR_MESSAGE();
    END CATCH;
END;
SELECT LOWER(@plan) AS power_plan, @refused AS refused;
GO

/*
Purpose:   creates the database of one side if it does not exist, gives it the same options on every version and server,
           and turns its broker on.
Called by: the lab once per instance, before every other file.
Assumes:   the login may create databases; it becomes the owner, and must be one that SQL Server itself can
           resolve (sa will do), because activation runs as the owner. Running it again keeps the broker's guid.
Variables: Database (name of the side's database)
*/
USE [master];
GO

IF DB_ID(N'$(Database)') IS NULL
    CREATE DATABASE [$(Database)];
GO

-- The load writes far more log than data and nobody restores it, so the log is truncated at checkpoints.
ALTER DATABASE [$(Database)] SET RECOVERY SIMPLE;
GO

-- A new database has the options of model, and their defaults differ between versions. Each is set where the version knows
-- it, in a string, because an older one cannot parse it. ProductMajorVersion is NULL before SQL Server 2012.
DECLARE @major int = CAST(SERVERPROPERTY(N'ProductMajorVersion') AS int);
DECLARE @statement nvarchar(max);

IF @major >= 12
    EXECUTE (N'ALTER DATABASE [$(Database)] SET DELAYED_DURABILITY = DISABLED;');

-- Row versions cost tempdb writes, TORN_PAGE_DETECTION and NONE cost less than CHECKSUM. Versions need an exclusive lock,
-- so they are left alone where they are off.
IF EXISTS (SELECT 1 FROM sys.databases WHERE name = N'$(Database)' AND is_read_committed_snapshot_on = 1)
    ALTER DATABASE [$(Database)] SET READ_COMMITTED_SNAPSHOT OFF WITH ROLLBACK IMMEDIATE;

ALTER DATABASE [$(Database)] SET PAGE_VERIFY CHECKSUM;

-- Indirect checkpoints, with the interval that new databases have since SQL Server 2016.
IF @major >= 13
    EXECUTE (N'ALTER DATABASE [$(Database)] SET TARGET_RECOVERY_TIME = 60 SECONDS;');

-- The query store, which is on by default from SQL Server 2022 on, writes into the database that is measured.
IF @major >= 13
    EXECUTE (N'ALTER DATABASE [$(Database)] SET QUERY_STORE = OFF;');

-- It writes row versions and more log. It needs an exclusive lock, so it is left alone where it is off, as by default.
IF @major >= 15
    EXECUTE (N'IF EXISTS (SELECT 1 FROM sys.databases WHERE name = N''$(Database)'' AND is_accelerated_database_recovery_on = 1)
        ALTER DATABASE [$(Database)] SET ACCELERATED_DATABASE_RECOVERY = OFF WITH ROLLBACK IMMEDIATE;');

-- The version's own.
IF @major >= 11
BEGIN
    SET @statement = N'ALTER DATABASE ' + QUOTENAME(N'$(Database)') + N' SET COMPATIBILITY_LEVEL = ' + CAST(10 * @major AS nvarchar(3)) + N';';
    EXECUTE (@statement);
END;
GO

-- The broker of a new database is on, that of a restored or attached one is off. Needs an exclusive lock.
IF EXISTS (SELECT 1 FROM sys.databases WHERE name = N'$(Database)' AND is_broker_enabled = 0)
    ALTER DATABASE [$(Database)] SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;
GO

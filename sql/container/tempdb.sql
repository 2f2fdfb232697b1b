/*
Purpose:   gives tempdb one data file for each core, all of one size and large enough not to grow: every RECEIVE of
           the target collects its messages in a table variable, which tempdb stores.
Called by: the lab once per container, before the side's database is created.
Assumes:   sysadmin; an instance that only the lab uses. Running it again changes nothing.
Variables: TempdbSizeMb (all data files together, in megabytes)
*/
USE [tempdb];
GO

SET NOCOUNT ON;

DECLARE @wanted int = (SELECT cpu_count FROM sys.dm_os_sys_info);
DECLARE @files int = (SELECT COUNT(*) FROM sys.database_files WHERE type = 0);
DECLARE @folder nvarchar(260) = COALESCE(CAST(SERVERPROPERTY(N'InstanceDefaultDataPath') AS nvarchar(260)), N'');
DECLARE @statement nvarchar(max);

WHILE @files < @wanted
BEGIN
    SET @files = @files + 1;
    SET @statement = N'ALTER DATABASE [tempdb] ADD FILE (NAME = N''harness' + CAST(@files AS nvarchar(10))
        + N''', FILENAME = N''' + @folder + N'tempdb_harness' + CAST(@files AS nvarchar(10))
        + N'.ndf'', SIZE = 8MB, FILEGROWTH = 64MB);';
    EXEC (@statement);
END;
GO

-- New rows are distributed by the files' free space: files of one size get equal shares.
DECLARE @share_mb int = (SELECT $(TempdbSizeMb) / COUNT(*) FROM sys.database_files WHERE type = 0);
DECLARE @log_mb int = 256;
DECLARE @file_id int = 0;
DECLARE @statement nvarchar(max);

WHILE EXISTS (SELECT 1 FROM sys.database_files WHERE file_id > @file_id)
BEGIN
    SET @file_id = (SELECT MIN(file_id) FROM sys.database_files WHERE file_id > @file_id);
    SET @statement = NULL;
    SELECT @statement = N'ALTER DATABASE [tempdb] MODIFY FILE (NAME = ' + QUOTENAME(name)
        + N', SIZE = ' + CAST(CASE WHEN type = 0 THEN @share_mb ELSE @log_mb END AS nvarchar(20)) + N'MB);'
    FROM sys.database_files
    WHERE file_id = @file_id AND size < CASE WHEN type = 0 THEN @share_mb ELSE @log_mb END * 128;
    IF @statement IS NOT NULL
        EXEC (@statement);
END;
GO

/*
Purpose:   makes the files of one side's database large enough not to grow while a cell is measured, and makes them grow
           in large steps if they have to.
Called by: the lab once per instance, after common/database.sql.
Assumes:   the login may alter the database. A larger file keeps its size; further files are left alone.
Variables: Database (name of the side's database), DataSizeMb, LogSizeMb (sizes in megabytes)
*/
USE [$(Database)];
GO

SET NOCOUNT ON;

-- The first data file and the first log file of a database always have these ids.
DECLARE @file_id int = 1;
DECLARE @wanted_mb int;
DECLARE @statement nvarchar(max);

WHILE @file_id <= 2
BEGIN
    SET @wanted_mb = CASE WHEN @file_id = 1 THEN $(DataSizeMb) ELSE $(LogSizeMb) END;
    -- Sizes are in pages of 8 KB. MODIFY FILE refuses a size that is not larger than the current one.
    SELECT @statement = N'ALTER DATABASE ' + QUOTENAME(DB_NAME()) + N' MODIFY FILE (NAME = ' + QUOTENAME(name)
        + CASE WHEN size < @wanted_mb * 128 THEN N', SIZE = ' + CAST(@wanted_mb AS nvarchar(20)) + N'MB' ELSE N'' END
        + N', FILEGROWTH = 256MB);'
    FROM sys.database_files
    WHERE file_id = @file_id;
    EXEC (@statement);
    SET @file_id = @file_id + 1;
END;
GO

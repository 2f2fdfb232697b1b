/*
Purpose:   whether SQL Server can act as the database's owner, as activation, EXECUTE AS OWNER and deliveries do.
Called by: the doctor, on every instance; the harness for a database that lab.toml names as existing_database.
Assumes:   the connection is in the side's database; the right to impersonate dbo, as db_owner has. Msg 15404: the service
           cannot ask the domain about the owner. Msg 15517: the owner has no login here, as after a restore.
Variables: none
Columns:   database_name, problem (nvarchar: the error; NULL if there is none)
*/
DECLARE @problem nvarchar(2048);

BEGIN TRY
    EXECUTE AS USER = N'dbo';
    REVERT;
END TRY
BEGIN CATCH
    SET @problem = ERROR_MESSAGE();
END CATCH;

SELECT DB_NAME() AS database_name, @problem AS problem;
GO

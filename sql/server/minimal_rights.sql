/*
Purpose:   gives a login that is no sysadmin the rights that the harness needs on an instance.
Called by: an administrator (sysadmin), once per instance.
Assumes:   the login exists. It is not for shared production servers: CONTROL on master lets the login change what
           is in master, and ALTER ANY LOGIN create logins. Taken back by REVOKE in the place of GRANT and FROM in
           the place of TO.
Variables: Login (the login of the harness)
*/
USE [master];
GO

-- The database of a side. Leave it out if prepare_database.sql made one.
GRANT CREATE ANY DATABASE TO [$(Login)];
GO

-- One login for each other instance, one for the test clients; and removing them.
GRANT ALTER ANY LOGIN TO [$(Login)];
GO

-- The endpoint. Who creates it owns it, and may alter and drop it and let the others connect.
GRANT CREATE ENDPOINT TO [$(Login)];
GO

-- Endpoints and logins of others do not show without it, and what does not show cannot be left alone knowingly.
GRANT VIEW ANY DEFINITION TO [$(Login)];
GO

-- Waits, counters, sessions and tasks in the dynamic management views. On SQL Server 2022 and later it includes
-- VIEW SERVER PERFORMANCE STATE and VIEW SERVER SECURITY STATE, which those views ask for there.
GRANT VIEW SERVER STATE TO [$(Login)];
GO

-- A database master key asks for CONTROL; so does a certificate that is given to a user of master, as those of the
-- other instances are. CREATE CERTIFICATE and ALTER ANY USER are part of it.
IF USER_ID(N'$(Login)') IS NULL
    CREATE USER [$(Login)] FOR LOGIN [$(Login)];
GO

GRANT CONTROL ON DATABASE::[master] TO [$(Login)];
GO

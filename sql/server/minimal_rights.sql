/*
Purpose:   grants a login that is not sysadmin the rights that the harness needs on an instance.
Called by: an administrator (sysadmin), once per instance.
Assumes:   the login exists. Do not use this on shared production servers: CONTROL on master lets the login change
           master, and ALTER ANY LOGIN lets it create logins. To revoke the rights, replace GRANT by REVOKE and TO by
           FROM.
Variables: Login (the login of the harness)
*/
USE [master];
GO

-- The database of a side. Leave it out if prepare_database.sql created one.
GRANT CREATE ANY DATABASE TO [$(Login)];
GO

-- To create and drop one login for each other instance, and one for the test clients.
GRANT ALTER ANY LOGIN TO [$(Login)];
GO

-- The endpoint. Its creator owns it, and may alter and drop it and let the other sides connect.
GRANT CREATE ENDPOINT TO [$(Login)];
GO

-- To see endpoints and logins of others, so that the harness does not collide with them.
GRANT VIEW ANY DEFINITION TO [$(Login)];
GO

-- Waits, counters, sessions and tasks in the dynamic management views. On SQL Server 2022 and later it includes
-- VIEW SERVER PERFORMANCE STATE and VIEW SERVER SECURITY STATE, which those views require there.
GRANT VIEW SERVER STATE TO [$(Login)];
GO

-- Creating a database master key requires CONTROL. So does creating a certificate that belongs to another user, as
-- those of the other instances do. CONTROL includes CREATE CERTIFICATE and ALTER ANY USER.
IF USER_ID(N'$(Login)') IS NULL
    CREATE USER [$(Login)] FOR LOGIN [$(Login)];
GO

GRANT CONTROL ON DATABASE::[master] TO [$(Login)];
GO

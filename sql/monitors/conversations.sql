/*
Purpose:   how many conversations each service of this database has in each state, and one of them, which is the same at
           two looks if it stays.
Called by: harness monitors, now and then.
Assumes:   db_owner. It reads all endpoints, so it is not asked at every look. MIN takes no uniqueidentifier. Conversations
           of a service that was dropped are left out.
Variables: none
Columns:   service_name (sysname), state_desc (nvarchar(60)), conversations (bigint), first_handle (char(36))
*/
SELECT
    s.name AS service_name,
    e.state_desc,
    COUNT_BIG(*) AS conversations,
    MIN(CONVERT(char(36), e.conversation_handle)) AS first_handle
FROM sys.conversation_endpoints AS e
JOIN sys.services AS s ON s.service_id = e.service_id
GROUP BY s.name, e.state_desc;
GO

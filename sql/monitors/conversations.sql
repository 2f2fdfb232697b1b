/*
Purpose:   how many conversations each service of this database has in each state, since when, and whose lifetimes end soon.
Called by: harness monitors, now and then, where there are not too many.
Assumes:   db_owner. It reads all endpoints, so it is not asked at every look. Conversations of a service that was dropped
           are left out. No column has the moment at which a conversation began; where its lifetime is the default, it
           began 2147483647 seconds before its end. A CLOSED one with a security_timestamp of the year 1900 stays until
           its lifetime ends: http://rusanu.com/2014/03/31/how-to-prevent-conversation-endpoint-leaks/
Variables: none
Columns:   service_name (sysname), state_desc (nvarchar(60)), is_kept (int: CLOSED, and the year is 1900),
           conversations (bigint), first_lifetime (datetime: the earliest end of a lifetime, in UTC; the same at two looks
           if that conversation stays), ends_soon (int: whose lifetimes end within an hour), utc_time (datetime)
*/
SELECT
    e.service_name,
    e.state_desc,
    e.is_kept,
    COUNT_BIG(*) AS conversations,
    MIN(e.lifetime) AS first_lifetime,
    SUM(CASE WHEN e.lifetime < DATEADD(HOUR, 1, GETUTCDATE()) THEN 1 ELSE 0 END) AS ends_soon,
    GETUTCDATE() AS utc_time
FROM
(
    SELECT
        s.name AS service_name,
        c.state_desc,
        c.lifetime,
        CASE WHEN c.state = 'CD' AND c.security_timestamp < '19010101' THEN 1 ELSE 0 END AS is_kept
    FROM sys.conversation_endpoints AS c
    JOIN sys.services AS s ON s.service_id = c.service_id
) AS e
GROUP BY e.service_name, e.state_desc, e.is_kept;
GO

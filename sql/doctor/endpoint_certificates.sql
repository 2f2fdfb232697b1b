/*
Purpose:   the certificates of master: this endpoint's own, and the copies of those that may connect to it.
Called by: the doctor, on every instance.
Assumes:   VIEW ANY DEFINITION; without it certificates of others are not visible. Names with ## are the server's own.
Variables: none
Columns:   certificate_name, certificate_id (int), owner_name, login_name (of the owner), private_key
           (should be ENCRYPTED_BY_MASTER_KEY; ENCRYPTED_BY_PASSWORD, NO_PRIVATE_KEY), thumbprint (varbinary),
           is_active_for_begin_dialog (bit), is_started (int: its first day has come), is_expired (int),
           start_date (datetime, UTC), expiry_date (datetime, UTC), days_left (int)
*/
SELECT
    c.name AS certificate_name,
    c.certificate_id,
    p.name AS owner_name,
    l.name AS login_name,
    c.pvt_key_encryption_type_desc AS private_key,
    c.thumbprint,
    c.is_active_for_begin_dialog,
    CASE WHEN c.start_date <= GETUTCDATE() THEN 1 ELSE 0 END AS is_started,
    CASE WHEN c.expiry_date <= GETUTCDATE() THEN 1 ELSE 0 END AS is_expired,
    c.start_date,
    c.expiry_date,
    DATEDIFF(DAY, GETUTCDATE(), c.expiry_date) AS days_left
FROM master.sys.certificates AS c
LEFT JOIN master.sys.database_principals AS p ON p.principal_id = c.principal_id
LEFT JOIN sys.server_principals AS l ON l.sid = p.sid
WHERE c.name NOT LIKE N'##%'
ORDER BY c.certificate_id;
GO

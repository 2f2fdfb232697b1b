/*
Purpose:   when the certificates of Service Broker end: in master the endpoint's own and those of its peers, in another
           database those of its dialogs.
Called by: harness monitors, when it begins and now and then, in master and in every database.
Assumes:   VIEW DEFINITION in the database shows all; the login sees certificates on which it has some permission. Of
           several certificates of one user the one that ends last is used. Names with ## are the server's own.
Variables: none
Columns:   certificate_name, principal_id (int: its owner), purpose (endpoint, peer, dialogs), expiry_date (datetime, UTC),
           hours_left (int)
*/
SELECT
    c.name AS certificate_name,
    c.principal_id,
    CASE
        WHEN DB_ID() <> 1 THEN N'dialogs'
        WHEN c.certificate_id IN (SELECT e.certificate_id FROM sys.service_broker_endpoints AS e) THEN N'endpoint'
        ELSE N'peer'
    END AS purpose,
    c.expiry_date,
    DATEDIFF(HOUR, GETUTCDATE(), c.expiry_date) AS hours_left
FROM sys.certificates AS c
WHERE c.name NOT LIKE N'##%'
    AND
    (
        (
            DB_ID() = 1
            AND
            (
                c.principal_id <> 1
                OR c.certificate_id IN (SELECT e.certificate_id FROM sys.service_broker_endpoints AS e)
            )
        )
        OR
        (
            DB_ID() <> 1
            AND EXISTS
            (
                SELECT 1
                FROM sys.remote_service_bindings AS b
                WHERE b.remote_principal_id = c.principal_id
                    OR
                    (
                        c.pvt_key_encryption_type = 'MK'
                        AND c.principal_id IN (SELECT s.principal_id FROM sys.services AS s)
                    )
            )
        )
    )
ORDER BY c.expiry_date;
GO

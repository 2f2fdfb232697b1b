/*
Purpose:   the lab's contract with its message types, and whether the lab's service offers it.
Called by: the doctor, on every instance.
Assumes:   no row means that there is no such contract. Names are compared byte by byte, as Service Broker does.
Variables: Contract (name of the contract),
           Service (name of this side's service)
Columns:   contract_name, is_offered (int: 1 if bound to the service), message_type_name, validation (BINARY stands
           for
           NONE), is_sent_by_initiator (bit), is_sent_by_target (bit)
*/
SELECT
    c.name AS contract_name,
    CASE WHEN s.service_id IS NULL THEN 0 ELSE 1 END AS is_offered,
    t.name AS message_type_name,
    t.validation_desc AS validation,
    m.is_sent_by_initiator,
    m.is_sent_by_target
FROM sys.service_contracts AS c
JOIN sys.service_contract_message_usages AS m ON m.service_contract_id = c.service_contract_id
JOIN sys.service_message_types AS t ON t.message_type_id = m.message_type_id
LEFT JOIN sys.service_contract_usages AS u ON u.service_contract_id = c.service_contract_id
LEFT JOIN sys.services AS s ON s.service_id = u.service_id AND s.name = N'$(Service)'
WHERE c.name = N'$(Contract)'
ORDER BY t.name, is_offered DESC;
GO

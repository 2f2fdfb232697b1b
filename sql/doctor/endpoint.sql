/*
Purpose:   the instance's Service Broker endpoint; it can have only one.
Called by: the doctor, on every instance; harness monitors.
Assumes:   no row means that there is none, or that the login lacks VIEW ANY DEFINITION.
Variables: none
Columns:   endpoint_name, state, port (int), ip_address (NULL: all), authentication, encryption (the algorithms in
           question; NONE among them: not encrypting is possible), is_forwarding (bit), certificate_id (int)
*/
SELECT
    e.name AS endpoint_name,
    e.state_desc AS state,
    t.port,
    t.ip_address,
    e.connection_auth_desc AS authentication,
    e.encryption_algorithm_desc AS encryption,
    e.is_message_forwarding_enabled AS is_forwarding,
    e.certificate_id
FROM sys.service_broker_endpoints AS e
JOIN sys.tcp_endpoints AS t ON t.endpoint_id = e.endpoint_id;
GO

/*
Purpose:   the instance's Service Broker endpoint: one TCP port for all its databases. Name and options are the
           paper's: certificates decide who may connect, and the connection itself is not encrypted.
Called by: the lab, on every instance, after endpoint_certificate.sql.
Assumes:   an instance can have one endpoint of this kind. An existing one of this name is altered to these options and
           keeps its grants. Its creator owns it, so the right to create endpoints suffices.
Variables: LocalName (name of this side in the lab), BrokerPort (TCP port; 5114 in the paper),
           ListenerIp (ALL as in the paper, or one address in parentheses: (127.0.0.1), or ('::1') with
           its apostrophes doubled in sqlcmd),
           EndpointEncryption (DISABLED as in the paper, or REQUIRED ALGORITHM AES),
           Prefix (begins the name of every object outside the lab's databases; may be empty)
*/
USE [master];
GO

DECLARE @verb nvarchar(6) = N'CREATE';
IF EXISTS (SELECT 1 FROM sys.service_broker_endpoints WHERE name = N'$(Prefix)Endpoint_SRPerf_1')
    SET @verb = N'ALTER';

-- In a string, because parsers expect a number and keywords in place of the variables.
EXECUTE (@verb + N' ENDPOINT [$(Prefix)Endpoint_SRPerf_1]
    STATE = STARTED
    AS TCP (LISTENER_PORT = $(BrokerPort), LISTENER_IP = $(ListenerIp))
    FOR SERVICE_BROKER (
        MESSAGE_FORWARDING = DISABLED,
        AUTHENTICATION = CERTIFICATE [$(Prefix)$(LocalName)_Endpoint],
        ENCRYPTION = $(EndpointEncryption)
    );');
GO

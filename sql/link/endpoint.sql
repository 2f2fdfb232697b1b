/*
Purpose:   the instance's Service Broker endpoint: one TCP port for all its databases. Name and options are the
           paper's: certificates decide who may connect, messages are not encrypted again on their way.
Called by: the lab, on every instance, after endpoint_certificate.sql.
Assumes:   an instance has one endpoint of this kind; one of this name is left as it is. For another port drop it
           first and run grant_connect.sql again: the grants go with it.
Variables: LocalName (name of this side in the lab), BrokerPort (TCP port; 5114 in the paper),
           ListenerIp (ALL as in the paper, or one address in parentheses: (127.0.0.1))
*/
USE [master];
GO

IF EXISTS (SELECT 1 FROM sys.service_broker_endpoints WHERE name = N'Endpoint_SRPerf_1')
    SET NOEXEC ON;
GO

CREATE ENDPOINT [Endpoint_SRPerf_1]
    STATE = STARTED
    AS TCP (LISTENER_PORT = $(BrokerPort), LISTENER_IP = $(ListenerIp))
    FOR SERVICE_BROKER (
        MESSAGE_FORWARDING = DISABLED,
        AUTHENTICATION = CERTIFICATE [$(LocalName)_Endpoint],
        ENCRYPTION = DISABLED
    );
GO

SET NOEXEC OFF;
GO

-- Certificates, logins, endpoint, owners, routes and bindings as scripts for two servers create them on one of these.
USE master
IF NOT EXISTS (SELECT * FROM sys.symmetric_keys WHERE name = '##MS_DatabaseMasterKey##')
    CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'StrongPass2!';
GO
CREATE CERTIFICATE Old_Server WITH SUBJECT = 'old', START_DATE = '20200101', EXPIRY_DATE = '12/31/2099'
CREATE CERTIFICATE B_Server
WITH SUBJECT = 'Endpoint of instance B';
GO
CREATE LOGIN B_Login FROM CERTIFICATE B_Server;
GO
IF EXISTS (SELECT * FROM sys.service_broker_endpoints WHERE name = 'Broker') DROP ENDPOINT Broker
CREATE ENDPOINT Broker
AUTHORIZATION sa
STATE = STARTED
AS TCP (LISTENER_PORT = 4023, LISTENER_IP = ALL)
FOR SERVICE_BROKER (AUTHENTICATION = CERTIFICATE Old_Server, ENCRYPTION = REQUIRED ALGORITHM AES, MESSAGE_FORWARDING = ENABLED, MESSAGE_FORWARD_SIZE = 10);
GO
GRANT CONNECT ON ENDPOINT::Broker TO B_Login;
ALTER ENDPOINT Broker FOR SERVICE_BROKER (AUTHENTICATION = CERTIFICATE B_Server)
ALTER ENDPOINT Broker STATE = STOPPED
IF (SELECT certificate_id FROM sys.service_broker_endpoints) <> CERT_ID('B_Server') THROW 50000, 'the old certificate', 1
GO
CREATE DATABASE Receiving
ALTER DATABASE Receiving SET ENABLE_BROKER;
GO
USE Receiving;
GO
CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'AnotherStrongPassword!';
GO
CREATE USER B_User WITHOUT LOGIN
-- a comment between statements
CREATE CERTIFICATE B_User_Cert
AUTHORIZATION B_User
WITH SUBJECT = 'Dialogs of instance B';
GO
select a.service_broker_guid
from sys.databases a
where a.name = 'Receiving'
CREATE USER A_User WITHOUT LOGIN
GO
CREATE MESSAGE TYPE Words AUTHORIZATION B_User  VALIDATION = WELL_FORMED_XML;
CREATE CONTRACT Talk AUTHORIZATION B_User (Words SENT BY INITIATOR);
CREATE QUEUE ReceiveQueue;
CREATE SERVICE Receive_Service AUTHORIZATION B_User ON QUEUE ReceiveQueue (Talk)
GO
CREATE ROUTE To_A
AUTHORIZATION B_User
WITH SERVICE_NAME = 'Send_Service',
BROKER_INSTANCE = '2DAD8184-F810-43DE-9B9B-D16EE473E587',
ADDRESS = 'TCP://127.0.0.1:4022';
CREATE REMOTE SERVICE BINDING Of_A
TO SERVICE 'Send_Service'
WITH USER = A_User, ANONYMOUS = OFF  -- the user that owns the other certificate
GO
GRANT SEND ON SERVICE::Receive_Service TO A_User;
IF (SELECT COUNT(*) FROM sys.routes r JOIN sys.remote_service_bindings b ON r.remote_service_name = b.remote_service_name
    WHERE r.principal_id = USER_ID('B_User') AND b.remote_principal_id = USER_ID('A_User') AND b.is_anonymous_on = 0) <> 1 THROW 50000, 'no binding', 1;
GO
select s.name, c.*
from
  sys.services s
join
  sys.certificates c
  on s.principal_id = c.principal_id
where
  c.is_active_for_begin_dialog = 1
  and pvt_key_encryption_type != 'NA'
order by
  c.expiry_date desc;
IF @@ROWCOUNT <> 1 THROW 50000, 'no certificate', 1;
GO

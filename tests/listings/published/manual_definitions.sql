-- The examples of the manual's pages on queues, message types, contracts, services, routes, bindings, and their permissions.
CREATE PROCEDURE first_procedure AS RETURN
GO
CREATE PROCEDURE second_procedure AS RETURN
GO
CREATE USER SecurityAccount WITHOUT LOGIN; CREATE USER APUser WITHOUT LOGIN
GO
CREATE QUEUE Queue1 ;
CREATE QUEUE Queue2 WITH STATUS=OFF ;
CREATE QUEUE Queue3
    WITH STATUS=ON,
    ACTIVATION (
        PROCEDURE_NAME = first_procedure,
        MAX_QUEUE_READERS = 5,
        EXECUTE AS 'ExpenseUser' ) ;
CREATE QUEUE Queue4
    WITH STATUS = ON,
      ACTIVATION (
        PROCEDURE_NAME = first_procedure,
        MAX_QUEUE_READERS = 10,
        EXECUTE AS SELF )
    ON [DEFAULT] ;
CREATE QUEUE Queue5
    WITH RETENTION = ON ;
CREATE QUEUE db.dbo.Queue6 ;
ALTER QUEUE Queue1 WITH STATUS = OFF ;
ALTER QUEUE Queue1
    WITH ACTIVATION (
        PROCEDURE_NAME = second_procedure ,
        EXECUTE AS SELF) ;
ALTER QUEUE Queue1 WITH ACTIVATION (MAX_QUEUE_READERS = 7) ;
ALTER QUEUE Queue1
    WITH ACTIVATION (
        PROCEDURE_NAME = second_procedure ,
        MAX_QUEUE_READERS = 10,
        EXECUTE AS 'SecurityAccount') ;
ALTER QUEUE Queue4
    WITH ACTIVATION (DROP) ;
ALTER QUEUE Queue1
WITH STATUS = ON, RETENTION = OFF, POISON_MESSAGE_HANDLING (STATUS = ON);
ALTER QUEUE Queue1 REBUILD WITH (MAXDOP = 2)
DROP QUEUE Queue5 ;
IF (SELECT COUNT(*) FROM sys.service_queues WHERE name LIKE 'Queue[0-9]') <> 5 THROW 50000, 'not five queues', 1
IF (SELECT max_readers FROM sys.service_queues WHERE name = 'Queue1' AND execute_as_principal_id = USER_ID('SecurityAccount')) <> 10 THROW 50000, 'not ten readers', 1
GO
CREATE MESSAGE TYPE
    [//Example/Submit] ;
CREATE MESSAGE TYPE
    [//Example/Image]
    VALIDATION = NONE ;
ALTER MESSAGE TYPE
    [//Example/Submit]
    VALIDATION = WELL_FORMED_XML ;
CREATE CONTRACT
    [//Example/Submission]
    ( [//Example/Submit]
          SENT BY INITIATOR) ;
CREATE CONTRACT [//Example/Processing] ([//Example/Image] SENT BY ANY)
CREATE SERVICE [//Example/Expenses]
    ON QUEUE [dbo].[Queue1]
    ([//Example/Submission]) ;
CREATE SERVICE [//Example/Other] AUTHORIZATION SecurityAccount ON QUEUE Queue2
    ([//Example/Submission],
     [//Example/Processing]) ;
ALTER SERVICE [//Example/Expenses]
    ON QUEUE Queue2 ;
ALTER SERVICE [//Example/Expenses]
    (ADD CONTRACT [//Example/Processing]) ;
ALTER SERVICE [//Example/Expenses]
    (ADD CONTRACT [DEFAULT],
     DROP CONTRACT [//Example/Submission]) ;
GO
CREATE ROUTE Route1
    WITH
    SERVICE_NAME = '//Example/Expenses',
    BROKER_INSTANCE = 'D8D4D268-00A3-4C62-8F91-634B89C1E315',
    LIFETIME = 259200,
    ADDRESS = 'TCP://services.example:1234',
    MIRROR_ADDRESS = 'TCP://mirror.example:1234' ;
CREATE ROUTE Route2
    WITH ADDRESS = 'TRANSPORT' ;
ALTER ROUTE Route1
   WITH
     SERVICE_NAME = '//Example/Expenses',
     BROKER_INSTANCE = 'D8D4D268-00A3-4C62-8F91-634B89B1E317',
     ADDRESS = 'TCP://10.2.19.72:1234';
DROP ROUTE Route2 ;
CREATE REMOTE SERVICE BINDING APBinding
    TO SERVICE '//Example/services/AccountsPayable'
    WITH USER = APUser, ANONYMOUS=ON ;
ALTER REMOTE SERVICE BINDING APBinding
    WITH USER = SecurityAccount ;
GRANT SEND ON SERVICE::[//Example/Expenses] TO APUser, [public] ;
GRANT RECEIVE ON dbo.Queue1 TO APUser ;
GRANT REFERENCES ON CONTRACT::[//Example/Submission] TO APUser ;
GRANT VIEW DEFINITION ON MESSAGE TYPE::[//Example/Submit] TO APUser ;
GRANT CONTROL ON ROUTE::Route1 TO APUser ;
REVOKE RECEIVE ON OBJECT::dbo.Queue1 FROM APUser CASCADE ;
ALTER AUTHORIZATION ON SERVICE::[//Example/Expenses] TO SecurityAccount ;
EXEC sp_addrolemember db_datareader, [APUser]
IF (SELECT COUNT(*) FROM sys.services WHERE principal_id = USER_ID('SecurityAccount')) <> 2 THROW 50000, 'not the owner', 1
IF (SELECT COUNT(*) FROM sys.service_contract_usages u JOIN sys.services s ON s.service_id = u.service_id WHERE s.name = '//Example/Expenses') <> 2 THROW 50000, 'not two contracts', 1
DROP REMOTE SERVICE BINDING APBinding ;
DROP SERVICE [//Example/Expenses]
GO

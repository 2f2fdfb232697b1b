/*
Purpose:   the order of the handles of new dialogs: the 150 trick relies on ascending ones.
Called by: the doctor, on an initiator, while the probe service exists.
Assumes:   no message is sent, and the dialogs are rolled back; table variables outlive the rollback.
Variables: Database (name of the initiator's database), BrokerInstance (service_broker_guid of the target's database)
Columns:   number (int: 1 for the first dialog), handle_rank (int: the rank of its handle among all in key order)
*/
USE [$(Database)];
GO

SET NOCOUNT ON;
DECLARE @begun table (number int NOT NULL, handle uniqueidentifier NOT NULL);
DECLARE @number int;
DECLARE @handle uniqueidentifier;

SET @number = 1;
BEGIN TRANSACTION;
WHILE @number <= 50
BEGIN
    BEGIN DIALOG @handle
        FROM SERVICE [//MySSB.com/Lab/S_Probe]
        TO SERVICE N'//MySSB.com/Lab/S_Probe', N'$(BrokerInstance)'
        ON CONTRACT [DEFAULT]
        WITH ENCRYPTION = OFF;

    INSERT INTO @begun (number, handle) VALUES (@number, @handle);
    SET @number = @number + 1;
END;
ROLLBACK TRANSACTION;

SELECT number, CAST(ROW_NUMBER() OVER (ORDER BY handle) AS int) AS handle_rank
FROM @begun
ORDER BY number;
GO

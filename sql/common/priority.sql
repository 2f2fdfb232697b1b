/*
Purpose:   the priority of the conversations of the lab's contract: 1 to 10; 5 is that of every conversation to which no
           broker priority applies, so for 5 there is none.
Called by: the lab once per side, after contract.sql. Not needed for 5 on a new database.
Assumes:   ALTER on the database: nothing less can be granted for it. An endpoint keeps the priority that it was created
           with, so no dialog of the pool has begun yet. RECEIVE always takes messages of a higher priority first; the
           transmission queue sends them first only where the database honours priorities, which is turned on here and
           not off again: among equal priorities it changes nothing.
Variables: Database (name of the side's database), Priority (1 to 10),
           Contract (name of the contract)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.conversation_priorities WHERE name = N'//MySSB.com/Lab/P_Test')
    DROP BROKER PRIORITY [//MySSB.com/Lab/P_Test];
GO

IF N'$(Priority)' = N'5'
    SET NOEXEC ON;
GO

-- In a string, because parsers expect a number and find the variable before sqlcmd has replaced it.
EXECUTE (N'CREATE BROKER PRIORITY [//MySSB.com/Lab/P_Test] FOR CONVERSATION
    SET (
        CONTRACT_NAME = [$(Contract)],
        LOCAL_SERVICE_NAME = ANY,
        REMOTE_SERVICE_NAME = ANY,
        PRIORITY_LEVEL = $(Priority)
    );');
GO

ALTER DATABASE [$(Database)] SET HONOR_BROKER_PRIORITY ON;
GO

SET NOEXEC OFF;
GO

/*
Purpose:   lets the test clients execute a procedure that was there before the lab, and send as they execute it: SEND
           requires RECEIVE on the queue of the service that sends.
Called by: the lab, on an initiator whose database existed before and has the clients' procedure, after
           client_login.sql.
Assumes:   the procedure and the queue exist. The grants end with the clients' user.
Variables: Database (name of the initiator's database), Prefix (begins the name of the clients' user; may be empty),
           ClientProcedure (with its schema), Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

GRANT EXECUTE ON OBJECT::$(ClientProcedure) TO [$(Prefix)Client];
GO

GRANT RECEIVE ON OBJECT::$(Queue) TO [$(Prefix)Client];
GO

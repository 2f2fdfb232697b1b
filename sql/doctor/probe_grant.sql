/*
Purpose:   lets a user, or public, send to the probe service.
Called by: the doctor, on every instance, for each principal that may send to the lab's service.
Assumes:   service and user exist.
Variables: Database (name of this side's database), Grantee (name of the user)
*/
USE [$(Database)];
GO

GRANT SEND ON SERVICE::[//MySSB.com/Lab/S_Probe] TO [$(Grantee)];
GO

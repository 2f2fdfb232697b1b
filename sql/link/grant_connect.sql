/*
Purpose:   lets the other instance connect to this one's endpoint.
Called by: the lab, on every instance, once per other side, after endpoint.sql and endpoint_login.sql.
Assumes:   endpoint and login exist.
Variables: RemoteName (name of the other side in the lab)
*/
USE [master];
GO

GRANT CONNECT ON ENDPOINT::[Endpoint_SRPerf_1] TO [User_$(RemoteName)];
GO

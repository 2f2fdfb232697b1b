/*
Purpose:   lets the other instance connect to this one's endpoint.
Called by: the lab, on every instance, once per other side, after endpoint.sql and endpoint_login.sql.
Assumes:   endpoint and login exist. The endpoint's creator owns it and may grant this.
Variables: RemoteName (name of the other side in the lab),
           Prefix (begins the name of every object outside the lab's databases; may be empty)
*/
USE [master];
GO

GRANT CONNECT ON ENDPOINT::[$(Prefix)Endpoint_SRPerf_1] TO [$(Prefix)User_$(RemoteName)];
GO

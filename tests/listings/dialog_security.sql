declare @service_broker_guid uniqueidentifier
-- @service_broker_guid retrieved
-- from linked server for SSBReceiver database
declare @dh uniqueidentifier
begin dialog @dh from service [//MySSB.com/Lab/S_Test]
to service '//MySSB.com/Lab/S_Test', @service_broker_guid
on contract [//MySSB.com/Lab/C_Test]
with encryption=ON;

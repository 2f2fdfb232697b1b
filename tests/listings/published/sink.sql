-- A library's lower-case statements without semicolons; a procedure that only ends dialogs.
if not exists(select null from sys.databases where database_id = db_id() and is_broker_enabled = 1) begin declare @sql nvarchar(max) = N'alter database [' + db_name() + '] set enable_broker with rollback immediate'; exec sp_executesql @sql end
if not exists(select null from sys.service_message_types where name = 'Work.Item') create message type [Work.Item] validation = none
if object_id('[Items]') is null create queue [Items]
if not exists(select null from sys.service_contracts where name = 'Work') create contract [Work]([Work.Item] sent by initiator)
if not exists(select null from sys.services where name = 'Items') create service [Items] on queue [Items]([Work])
go
create procedure [Sink Handler]
as
    declare @cid uniqueidentifier
    declare @type sysname

    begin transaction
        while 1 = 1 begin
            receive top(1)
                @cid = conversation_handle,
                @type = message_type_name
            from SinkQueue

            if @@rowcount = 0
                break
            if @type = N'http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog'
                end conversation @cid
    end
    commit
go
if object_id('SinkQueue') is null create queue SinkQueue with activation(status = on, procedure_name = [Sink Handler], max_queue_readers = 1, execute as owner)
create service [Sink] on queue SinkQueue
go
declare @cid uniqueidentifier
begin dialog @cid
from service [Sink]
to service 'Items'
on contract [Work]
with encryption = off

select @cid
;send on conversation @cid message type [Work.Item] (0x7b7d)
go
select services.name
from sys.services services
join sys.service_queues queues on services.service_queue_id = queues.object_id
where queues.name = 'Items'
select message_type_name from [Items] with(nolock)
declare @timeout int = 1000, @conversation uniqueidentifier = (select conversation_handle from Items)
waitfor(receive top(1)
    conversation_handle,
    message_body
from [Items]
where conversation_handle = @conversation), timeout @timeout
end conversation @conversation
go
waitfor delay '00:00:02'
if exists (select * from sys.conversation_endpoints where is_initiator = 1) throw 50000, 'the sink has not ended its side', 1
go

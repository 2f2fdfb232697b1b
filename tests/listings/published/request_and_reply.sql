-- A request and its reply between two databases, with the clauses on lines of their own.
use master;
create database orders;
create database stock;
go
alter database orders set trustworthy on;
ALTER DATABASE stock
SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;
ALTER AUTHORIZATION
   ON DATABASE::stock TO [sa];
ALTER DATABASE stock SET TRUSTWORTHY ON;
go
use orders
CREATE MESSAGE TYPE
[//Shop/Request]
VALIDATION=WELL_FORMED_XML;
create message type [//Shop/Reply] validation = none;
create contract [//Shop/Contract] ([//Shop/Request] sent by initiator, [//Shop/Reply] sent by target);
create queue dbo.OrderQueue;
CREATE SERVICE [//Shop/Orders]
       ON QUEUE OrderQueue
       ([//Shop/Contract]);
go
use stock
create message type [//Shop/Request] validation = well_formed_xml;
create message type [//Shop/Reply] validation = none;
create contract [//Shop/Contract] ([//Shop/Request] sent by initiator, [//Shop/Reply] sent by target);
create queue dbo.StockQueue;
create service [//Shop/Stock] on queue dbo.StockQueue ([//Shop/Contract]);
go
use orders
DECLARE @h UNIQUEIDENTIFIER
Begin Transaction
/* Começa um diálogo */
BEGIN DIALOG @h
    FROM SERVICE
    [//Shop/Orders]
    TO SERVICE
    '//Shop/Stock'
    ON CONTRACT
    [//Shop/Contract]
    WITH ENCRYPTION=OFF,
    LIFETIME= 600;
Declare @body nvarchar(max)
SET @body = N'<m>
Olá</m>
';
SEND ON CONVERSATION @h
    MESSAGE TYPE
    [//Shop/Request]
    (@body);
SELECT @body AS Sent; --
Commit Transaction
go
use stock
declare @handle uniqueidentifier;
declare @message varchar(100);
declare @type sysname;
begin transaction;
  waitfor
  (
    receive top(1)
      @handle = Conversation_Handle,
      @message = CAST(message_body AS nvarchar(100)),
      @type = CAST(message_type_name AS NVARCHAR(MAX))
    from
      dbo.StockQueue
  ), timeout 1000;
  select
    @message as message_received,
    @type as message_type;
  if @type = N'//Shop/Request'
    begin
      declare @reply varchar(100);
      select @reply = 'ack';

      send
        on conversation @handle
        message type [//Shop/Reply] (@reply);
      end conversation @handle;
    end
  select @reply as message_replied;
commit transaction;
go
select * from sys.transmission_queue order by enqueue_time desc;
select * from sys.conversation_endpoints where far_service like '%Orders%'
use orders
waitfor delay '00:00:01'
SELECT CAST(message_body AS varchar(max)),*
FROM dbo.OrderQueue;
if @@rowcount <> 2 throw 50000, 'no answer', 1
RECEIVE Cast(message_body as varchar(max)) FROM [OrderQueue];
go

-- Procedures and parameters that name services, contract and message type; OUTPUT, positional and named; errors.
create message type M validation = well_formed_xml;
create contract C (M sent by any);
create queue dbo.ClientQueue; create service Client on queue dbo.ClientQueue;
create queue dbo.ServerQueue; create service Server on queue dbo.ServerQueue (C);
go
create procedure dbo.send_one
    @From sysname,
    @to   sysname,
    @contract    sysname,
    @type sysname,
    @body nvarchar(max),
    @out uniqueidentifier out
as
begin
    set nocount on;
    declare @handle uniqueidentifier;
    begin transaction;
        begin dialog conversation @handle
            from service @from
            to service   @to
            on contract  @contract
            with encryption = off;
        /* the text */
        send on conversation @handle message type @type(@body);
    commit transaction;
    set @out = @handle
end
go
declare @out uniqueidentifier
exec dbo.send_one @from = 'Client', @to = 'Server', @contract = 'C', @type = 'M', @body = N'<a/>', @out = @out out
exec dbo.send_one 'Client', 'Server', 'C', 'M', N'<b/>', @out output
EXEC sp_executesql N'END CONVERSATION @ch WITH ERROR = @ec DESCRIPTION = @desc', N'@ch uniqueidentifier, @ec int, @desc nvarchar(255)', @out, 7, N'no more';
go
DECLARE @ch uniqueidentifier;
EXEC sp_executesql N'BEGIN DIALOG @ch FROM SERVICE Client TO SERVICE @ts ON CONTRACT @cn WITH ENCRYPTION = OFF , LIFETIME = 60 ',
    N'@ch uniqueidentifier OUTPUT, @ts nvarchar(256), @cn nvarchar(128)', @ch OUTPUT, @ts = N'Server', @cn = N'C';
EXEC sp_executesql N'SEND ON CONVERSATION @ch MESSAGE TYPE @mt ', N'@ch uniqueidentifier, @mt nvarchar(255)', @ch, N'M';
go
-- Before 2012 an empty body was no XML; now it is, so the last message arrives too.
waitfor delay '00:00:01'
declare @target uniqueidentifier = (select top 1 conversation_handle from ServerQueue order by queuing_order);
EXEC sp_executesql N'WAITFOR(RECEIVE TOP(1) conversation_group_id, conversation_handle, message_sequence_number, service_name, service_contract_name, message_type_name, validation, message_body FROM ServerQueue WHERE conversation_handle = @ch), TIMEOUT @to',
    N'@ch uniqueidentifier, @to int', @target, 10;
EXEC sp_executesql N'SELECT COUNT(*) FROM ServerQueue WHERE message_type_name = @mt', N'@mt nvarchar(128)', N'M';
if not exists (select * from dbo.ServerQueue where cast(message_body as nvarchar(max)) like N'%<Code>7</Code><Description>no more</Description>%') throw 50000, 'no error message', 1;
go

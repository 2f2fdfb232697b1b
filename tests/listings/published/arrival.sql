-- The moment of arrival, moved to the local offset; an activated procedure that ends dialogs with the error of its insert.
create table dbo.Kept (
    MessageID int identity(1,1) constraint PK_Kept primary key
    ,Received datetime
    ,Body nvarchar(20)
);
go
create procedure dbo.keep
as
begin
    declare
        @handle uniqueidentifier,
        @body varbinary(max),
        @received datetimeoffset;

    waitfor (
        receive top (1)
            @body = message_body
            ,@handle = conversation_handle
            ,@received = message_enqueue_time
        from dbo.GenericQueue
    ), timeout 500 --milliseconds

    if (@@rowcount != 0)
    begin
        if @body is not null
        begin
            begin try
                insert into dbo.Kept (Received, Body)
                select
                    convert(datetime, switchoffset(@received, datepart(tzoffset,sysdatetimeoffset()))) as Received
                    , cast(@body as nvarchar(max)) as Body
            end try
            begin catch
                declare
                    @error int = error_number()
                    , @message nvarchar(4000) = error_message();

                end conversation @handle with error = @error description = @message;
                return;
            end catch
        end

        end conversation @handle;
    end
end
go
create contract GenericContract ( [DEFAULT] sent by any);
create queue GenericQueue with
status = on
, activation (
    status = on
    , max_queue_readers = 10 --number of instances
    , procedure_name = dbo.keep
    , execute as owner
);
create service GenericService on queue GenericQueue (GenericContract);
create queue Sent; create service Sender on queue Sent;
go
begin transaction
    declare @handle uniqueidentifier, @long nvarchar(30) = replicate(N'x', 30);
    begin dialog @handle from service Sender to service 'GenericService' on contract GenericContract with encryption=off;
    send on conversation @handle (N'hello');
    begin dialog @handle from service Sender to service 'GenericService' on contract GenericContract with encryption=off;
    send on conversation @handle (@long);
commit transaction
go
waitfor delay '00:00:03'
if (select count(*) from dbo.Kept where abs(datediff(second, Received, getdate())) < 60) <> 1 throw 50000, 'not one message', 1
if (select count(*) from Sent where cast(message_body as nvarchar(max)) like '%<Code>8152</Code>%' or cast(message_body as nvarchar(max)) like '%<Code>2628</Code>%') <> 1 throw 50000, 'no error', 1
go

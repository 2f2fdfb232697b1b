-- A procedure runs in the background; a savepoint undoes it alone, and its times and error are kept by the conversation's id.
create table [Results] (
    [token] uniqueidentifier primary key
    , [start_time] datetime null
    , [finish_time] datetime null
    , [error_number]    int null);
create queue [ExecQueue];
create service [Exec] on queue [ExecQueue] ([DEFAULT]);
go
create procedure activated
as
begin
    set nocount on;
    declare @h uniqueidentifier
        , @type sysname
        , @body varbinary(max)
        , @procedure sysname
        , @started datetime
        , @number int
        , @text nvarchar(2048)
        , @state smallint
        , @token uniqueidentifier;

    begin transaction;
    begin try;
        receive top(1)
            @h = [conversation_handle]
            , @type = [message_type_name]
            , @body = [message_body]
            from [ExecQueue];
        if (@h is not null)
        begin
            if (@type = N'DEFAULT')
            begin
                select @procedure = cast(@body as nvarchar(128));
                save transaction before_it;
                select @started = GETUTCDATE();
                begin try
                    exec @procedure;
                end try
                begin catch
                select @number = ERROR_NUMBER(),
                    @text = ERROR_MESSAGE(),
                    @state = XACT_STATE();
                if (@state = -1)
                begin
                    rollback;
                    raiserror(N'Unrecoverable error in procedure %s: %i: %s', 16, 10,
                        @procedure, @number, @text);
                end
                else if (@state = 1)
                begin
                    rollback transaction before_it;
                end
                end catch

                select @token = [conversation_id]
                    from sys.conversation_endpoints
                    where [conversation_handle] = @h;
                update [Results] set
                    [start_time] = @STARTED
                    , [finish_time] = getutcdate()
                    , [error_number] = @number
                    where [token] = @token;
                if (0 = @@rowcount)
                begin
                    raiserror(N'token not found', 16, 30);
                end
                end conversation @h;
            end
            else if (@type = N'http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog')
            begin
                end conversation @h;
            end
            else
            begin
                raiserror(N'Received unexpected message type: %s', 16, 50, @type);
            end
        end
        commit;
    end try
    begin catch
        declare @error int
            , @message nvarchar(2048);
        select @error = ERROR_NUMBER()
            , @message = ERROR_MESSAGE()
            , @state = XACT_STATE();
        if (@state <> 0)
        begin
            rollback;
        end;
        raiserror(N'Error: %i, %s', 1, 60,  @error, @message) with log;
    end catch
end
go
alter queue [ExecQueue]
    with activation (
    procedure_name = [activated]
    , max_queue_readers = 1
    , execute as owner
    , status = on);
go
create procedure [later]
    @procedure sysname
    , @out uniqueidentifier output
as
begin
    declare @h uniqueidentifier
        , @trancount int;
    set @trancount = @@trancount;
    if @trancount = 0
        begin transaction
    else
        save transaction here;
    begin dialog conversation @h
        from service [Exec]
        to service N'Exec', 'current database'
        with encryption = off;
    select @out = [conversation_id]
        from sys.conversation_endpoints
        where [conversation_handle] = @h;
    declare @body nvarchar(128) = @procedure;
    send on conversation @h (@body);
    insert into [Results]
        ([token])
        values
        (@out);
    if @trancount = 0
        commit;
end
go
create procedure [slow] as waitfor delay '00:00:05';
go
create procedure [faulty]
as
begin
    delete from Results;
    raiserror(N'Artificial error', 16, 100);
end
go
declare @out uniqueidentifier;
exec later N'slow', @out output;
exec later N'faulty', @out output;
waitfor delay '00:00:10';
if (select count(*) from [Results] where finish_time is not null) <> 2 or (select error_number from [Results] where token = @out) <> 50000
    or (select datediff(second, start_time, finish_time) from Results where error_number is null) <> 5 throw 50000, 'not executed', 1
if exists (select * from sys.conversation_endpoints where is_initiator = 1) throw 50000, 'dialogs are left', 1
go

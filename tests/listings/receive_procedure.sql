create procedure [dbo].[SRPerf_Queue_LabTest]
as
begin
declare @receive table (message_type sysname,
                        message_body varbinary(max),
                        [dialog] uniqueidentifier)
-- Loop calling Receive, break after timeout-no messages
while 1=1
begin
    -- Transaction includes rcv msgs, process, and write to table
    begin tran
    -- Receive up to 10K msgs, wait for 3 secs for msgs
    waitfor (receive top (10000)
            message_type_name,
            message_body,
            conversation_handle
            from MySSBLabTestQueue
            into @receive
            ), timeout 3000;
    -- If no messages, exit SP
    if @@rowcount = 0
    begin
        rollback tran
        break
    end
    -- Copy 2K bytes of payload to table
    insert into dbo.messageDrop (messageVal)
    select cast(message_body as varbinary(2000))
    from @receive
    -- Delete temp table
    delete from @receive
    commit tran
end -- end while
end -- end procedure

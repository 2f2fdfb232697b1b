declare @dh uniqueidentifier, @i bigint
declare @s varchar (50)

select @i = 0;
set @s = replicate ('x', 50)

declare conv cursor for
select [conversation_handle] from sys.conversation_endpoints;
open conv;
fetch next from conv into @dh;

while @@fetch_status = 0
begin
    ;send on conversation @dh message type
    [//MySSB.com/Lab/M_Test] (@s)
    fetch next from conv into @dh;
    set @i = @i + 1
end
close conv;
deallocate conv;

declare @i int, @k int, @dh uniqueidentifier
select @i = 0, @k = 0;
while (@i < 7500)
begin
    set @i = @i + 1
    begin dialog @dh from service [//MySSB.com/Lab/S_Test]
        to service '//MySSB.com/Lab/S_Test', @service_broker_guid
        on contract [//MySSB.com/Lab/C_Test]
        with encryption=ON;
    if ((@i % 150) = 0)
    begin
        set @k = @k + 1
        insert into dbo.dialogs values (@k, @dh)
    end
end

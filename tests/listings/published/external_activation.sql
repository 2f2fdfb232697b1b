-- An event notification tells a service that a queue has messages.
create queue dbo.customerqueue with status=on;
create queue dbo.eventqueue
  with status=on;
create service customer on queue dbo.customerqueue ([DEFAULT])
go
if exists(select * from sys.services where name = N'company/events')
  drop service [company/events];
go
create service [company/events]
  on queue dbo.eventqueue
  (
    [http://schemas.microsoft.com/SQL/Notifications/PostEventNotification]
  );
go
create event notification customerevent
  on queue dbo.customerqueue
  for QUEUE_ACTIVATION
  to service N'company/events', 'current database';
go
CREATE PROCEDURE [dbo].[Receive_Events]
    @wait int = 500,
    @count int = 1
AS
SET NOCOUNT ON;

WAITFOR
(
    RECEIVE TOP(@count) *
    FROM    dbo.eventqueue
), TIMEOUT @wait

SET NOCOUNT OFF;
GO
declare @h uniqueidentifier
begin dialog @h from service customer to service 'customer' with encryption = off
;send on conversation @h (N'x')
go
waitfor delay '00:00:02'
if (select count(*) from dbo.eventqueue where message_type_name = 'http://schemas.microsoft.com/SQL/Notifications/EventNotification') <> 1 throw 50000, 'no event', 1
exec dbo.Receive_Events
exec dbo.Receive_Events 10, 5
if exists (select * from dbo.eventqueue) throw 50000, 'the event is left', 1
go

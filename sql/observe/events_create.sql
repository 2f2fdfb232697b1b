/*
Purpose:   creates an Extended Events session: each wait for a latch of a session in the lab's database, and what the
           broker's activation and its connections to other instances do.
Called by: the sweep with --events, on each instance of a cell, after the measured window.
Assumes:   SQL Server 2012, and ALTER ANY EVENT SESSION on the server; from 2022 on CREATE ANY EVENT SESSION, ALTER ANY
           EVENT SESSION ENABLE and DROP ANY EVENT SESSION suffice together. The ring buffer lies in memory and keeps 1,000
           events, of each kind at least the last hundred (occurrence_number), so the view that shows it stays below its
           limit of 4 MB. Events are dispatched once a second; what does not fit is lost, and no session waits for that.
           https://learn.microsoft.com/sql/t-sql/statements/create-event-session-transact-sql
           https://learn.microsoft.com/sql/relational-databases/extended-events/targets-for-extended-events-in-sql-server
           sys.dm_xe_objects lists the events of an instance. An instance that lacks one refuses the session.
Variables: Session (a name), Database (the lab's)
*/
CREATE EVENT SESSION [$(Session)] ON SERVER
    ADD EVENT sqlserver.latch_suspend_end (WHERE ([sqlserver].[database_name] = N'$(Database)')),
    ADD EVENT sqlserver.broker_activation_stored_procedure_invoked,
    ADD EVENT sqlserver.broker_activation_task_aborted,
    ADD EVENT sqlserver.broker_activation_task_limit_reached,
    ADD EVENT sqlserver.broker_activation_task_started,
    ADD EVENT sqlserver.broker_message_undeliverable,
    ADD EVENT sqlserver.broker_queue_disabled,
    ADD EVENT sqlserver.broker_transmission_exception
    ADD TARGET package0.ring_buffer (SET occurrence_number = 100)
    WITH (EVENT_RETENTION_MODE = ALLOW_MULTIPLE_EVENT_LOSS, MAX_DISPATCH_LATENCY = 1 SECONDS, STARTUP_STATE = OFF);

/*
Purpose:   dbo.orders, the table of the application, which knows nothing of Service Broker.
Called by: the set-up of each initiator, before its trigger (send_orders.sql).
Assumes:   the initiator's database.
Variables: Database (name of the initiator's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.orders', N'U') IS NULL
    CREATE TABLE dbo.orders
    (
        id bigint IDENTITY(1, 1) NOT NULL,
        handle uniqueidentifier NOT NULL,
        body varbinary(max) NOT NULL,
        CONSTRAINT PK_orders PRIMARY KEY CLUSTERED (id)
    );
GO

/*
Purpose:   the route to the other side's service: one for each other side, in the database that sends.
Called by: the lab, on every instance, once per other side, and again after reset/broker.sql gave the other side a
           new broker instance.
Assumes:   a route of that name is an older one to the same side and is replaced. Messages that arrive from the
           network are routed by msdb, whose route AutoCreatedLocal finds the database by its broker instance;
           so msdb needs no other route unless somebody dropped that one.
Variables: Database (name of this side's database), RouteName (name of the route: Test_ and the other side's name),
           ServiceName (name of the other side's service),
           BrokerInstance (service_broker_guid of the other side's database; observe/instance.sql shows it),
           BrokerAddress (TCP://host:port of the other side's endpoint)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.routes WHERE name = N'$(RouteName)')
    DROP ROUTE [$(RouteName)];
GO

CREATE ROUTE [$(RouteName)] AUTHORIZATION [dbo]
    WITH SERVICE_NAME = N'$(ServiceName)',
    BROKER_INSTANCE = N'$(BrokerInstance)',
    ADDRESS = N'$(BrokerAddress)';
GO

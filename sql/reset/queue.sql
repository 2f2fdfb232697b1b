/*
Purpose:   rebuilds the indexes of the lab's queue, which leaves its ghost records behind.
Called by: the sweep, before a cell, where the queue has grown since the first cell.
Assumes:   SQL Server 2016 or later. Nobody sends and the queue is empty: REBUILD is always an offline operation, which
           waits for queue readers and makes others wait. The manual advises it for fragmentation under high load. It does
           not say that ghost records are gone afterwards. A probe of tests/conformance asks that.
           https://learn.microsoft.com/sql/t-sql/statements/alter-queue-transact-sql
Variables: Database (name of the side's database), Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

EXECUTE (N'ALTER QUEUE $(Queue) REBUILD;');
GO

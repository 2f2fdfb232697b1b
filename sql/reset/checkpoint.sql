/*
Purpose:   writes the changed pages of a side's database to disk, so that they are not written while a cell is measured.
Called by: the sweep, before each cell, on every instance.
Assumes:   db_owner. CHECKPOINT waits until the pages are written.
           https://learn.microsoft.com/sql/t-sql/language-elements/checkpoint-transact-sql
Variables: Database (name of the side's database)
*/
USE [$(Database)];
GO

CHECKPOINT;
GO

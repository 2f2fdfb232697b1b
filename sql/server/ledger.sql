/*
Purpose:   the ledger: what the harness has created, or is about to create, outside the database that holds it; of a
           database that existed before the lab, also what it creates inside, with a class in capitals.
Called by: the harness on a user's own servers, once per instance, after create_database.sql.
Assumes:   the database carries the mark.
Variables: Database (name of the side's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.harness_ledger', N'U') IS NULL
    CREATE TABLE dbo.harness_ledger (
        class nvarchar(30) NOT NULL,
        name nvarchar(300) NOT NULL,
        created_at datetime2(3) NOT NULL CONSTRAINT DF_harness_ledger_created_at DEFAULT SYSUTCDATETIME(),
        CONSTRAINT PK_harness_ledger PRIMARY KEY (class, name)
    );
GO

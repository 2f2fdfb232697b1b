/*
Purpose:   allows the dedicated administrator connection from outside the container: it alone may read
           sys.sysdesend, whose pages show whether used dialogs share a page.
Called by: the lab once per container.
Assumes:   sysadmin; an instance that only the lab uses. Running it again changes nothing.
Variables: none
*/
EXEC sys.sp_configure N'remote admin connections', 1;
GO

RECONFIGURE;
GO

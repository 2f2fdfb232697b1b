/*
Purpose:   lets the dedicated administrator connection in from outside the container: it alone may read
           sys.sysdesend, whose pages tell whether the dialogs in use share any.
Called by: the lab once per container.
Assumes:   sysadmin; an instance of the lab's own. Running it again changes nothing.
Variables: none
*/
EXEC sys.sp_configure N'remote admin connections', 1;
GO

RECONFIGURE;
GO

/*
Purpose:   the page of each row of sys.sysdercv, in which the target keeps what it has received on a dialog.
Called by: the sweep, on the target, once a pool and dialog ratio, over the dedicated administrator connection.
Assumes:   the dedicated administrator connection, which alone sees sys.sysdercv; others get Msg 208. Its columns are in
           no manual: diagid is taken for the conversation id. In a string, because Microsoft's public parser does not
           know the pseudo-column with the location of a row.
Variables: none
Columns:   conversation_id (uniqueidentifier), location (binary(8): as of observe/dialog_page_locations.sql)
*/
EXECUTE (N'SELECT diagid AS conversation_id, CAST(%%physloc%% AS binary(8)) AS location FROM sys.sysdercv');

/*
Purpose:   the page of each row of sys.sysdesend whose dialog is in dbo.dialogs: the evidence for the 150 trick.
Called by: the sweep, on an initiator, once a pool, over the dedicated administrator connection.
Assumes:   the dedicated administrator connection, which alone sees sys.sysdesend; others get Msg 208. SEND changes
           that row under an exclusive latch on its page. In a string, because Microsoft's public parser does not know
           the pseudo-column with the location of a row.
Variables: none
Columns:   dialog_id (int), handle (uniqueidentifier), handle_rank (bigint: rank of the handle among all rows in key
           order, from 0), location (binary(8): page, file and slot of the row, each with its lowest byte first; not by
           sys.fn_PhysLocFormatter, which is wrong under collations of two bytes a character)
*/
EXECUTE
(N'
WITH located AS
(
    SELECT
        handle,
        ROW_NUMBER() OVER (ORDER BY handle) - 1 AS handle_rank,
        CAST(%%physloc%% AS binary(8)) AS location
    FROM sys.sysdesend
)
SELECT d.id AS dialog_id, l.handle, l.handle_rank, l.location
FROM dbo.dialogs AS d
JOIN located AS l ON l.handle = d.handle
ORDER BY d.id
');

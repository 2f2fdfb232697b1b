/*
Purpose:   whether the dialogs in use lie on pages of their own: the check of the 150 trick without the dedicated
           administrator connection.
Called by: the lab, on an initiator, after dbo.CreateDialogs; the doctor.
Assumes:   sys.sysdesend is kept in the order of handles, 144 rows a page, pages full. A page split moves the
           borders; it never brings two dialogs nearer than they are here.
Variables: none
Columns:   dialogs (int: in use), pages (int: that hold them), dialogs_per_page_max (int: 1 if the trick works)
*/
WITH endpoints AS
(
    SELECT
        conversation_handle,
        (ROW_NUMBER() OVER (ORDER BY conversation_handle) - 1) / 144 AS page
    FROM sys.conversation_endpoints
),
used_pages AS
(
    SELECT e.page, COUNT(*) AS dialogs
    FROM dbo.dialogs AS d
    JOIN endpoints AS e ON e.conversation_handle = d.handle
    GROUP BY e.page
)
SELECT SUM(dialogs) AS dialogs, COUNT(*) AS pages, MAX(dialogs) AS dialogs_per_page_max
FROM used_pages;

/*
Purpose:   an estimate of how many pages of sys.sysdesend hold the used dialogs: the check of the 150 trick without the
           dedicated administrator connection.
Called by: the sweep, on an initiator that refuses that connection, once a pool and dialog ratio.
Assumes:   sys.sysdesend is stored in the order of handles, with 144 rows on each full page. A page split moves the
           page borders and leaves fewer rows on a page.
Variables: DialogRatio (dialogs whose id is a multiple of it are used), LastDialog (the highest id in use)
Columns:   dialogs (int: those used), pages (int: that contain them), dialogs_per_page_max (int: 1 if the trick works)
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
    WHERE d.id % $(DialogRatio) = 0
      AND d.id <= $(LastDialog)
    GROUP BY e.page
)
SELECT SUM(dialogs) AS dialogs, COUNT(*) AS pages, MAX(dialogs) AS dialogs_per_page_max
FROM used_pages;

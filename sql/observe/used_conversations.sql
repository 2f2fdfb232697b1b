/*
Purpose:   the conversations of the used dialogs, which have the same ids at the target.
Called by: the sweep, on an initiator, once a pool and dialog ratio.
Assumes:   dbo.dialogs has the pool.
Variables: DialogRatio (dialogs whose id is a multiple of it are used), LastDialog (the highest id in use)
Columns:   conversation_id (uniqueidentifier)
*/
SELECT e.conversation_id
FROM dbo.dialogs AS d
JOIN sys.conversation_endpoints AS e ON e.conversation_handle = d.handle
WHERE d.id % $(DialogRatio) = 0
  AND d.id <= $(LastDialog);

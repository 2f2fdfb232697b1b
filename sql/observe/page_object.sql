/*
Purpose:   the object to which a page belongs, from SQL Server 2019 on.
Called by: the sampler, after the measured window, once for each page for which a task waited.
Assumes:   VIEW DATABASE STATE. The page may belong to another object by now, unless it is a system table's.
Variables: DatabaseId, FileId, PageId
Columns:   object_id (int), index_id (int)
*/
SELECT object_id, index_id
FROM sys.dm_db_page_info($(DatabaseId), $(FileId), $(PageId), N'LIMITED');

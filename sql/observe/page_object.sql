/*
Purpose:   to which object a page belongs, from SQL Server 2019 on.
Called by: the sampler, after the measured window, once for each page that somebody waited for.
Assumes:   VIEW DATABASE STATE. The page may have changed hands since; those of system tables do not.
Variables: DatabaseId, FileId, PageId
Columns:   object_id (int), index_id (int)
*/
SELECT object_id, index_id
FROM sys.dm_db_page_info($(DatabaseId), $(FileId), $(PageId), N'LIMITED');

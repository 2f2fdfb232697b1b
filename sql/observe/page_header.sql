/*
Purpose:   the header of a page, with the object it belongs to: before SQL Server 2019.
Called by: the sampler, after the measured window, once for each page for which a task waited.
Assumes:   sysadmin. DBCC PAGE is undocumented. The harness reads the fields Metadata: ObjectId and
           Metadata: IndexId.
Variables: DatabaseId, FileId, PageId
Columns:   ParentObject, Object, Field, VALUE
*/
DBCC PAGE ($(DatabaseId), $(FileId), $(PageId), 0) WITH TABLERESULTS, NO_INFOMSGS;

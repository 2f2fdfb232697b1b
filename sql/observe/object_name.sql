/*
Purpose:   the name of a page's object; for a queue's internal table, the queue's name.
Called by: the sampler, after the measured window, once for each object.
Assumes:   internal tables are those of this database: for another's queue the internal table's name is returned.
Variables: DatabaseId, ObjectId
Columns:   is_here (int: 1 if it is this database), database_name, schema_name, object_name, queue_schema_name,
           queue_name (both NULL unless it is the internal table of a queue)
*/
SELECT
    CASE WHEN $(DatabaseId) = DB_ID() THEN 1 ELSE 0 END AS is_here,
    DB_NAME($(DatabaseId)) AS database_name,
    OBJECT_SCHEMA_NAME($(ObjectId), $(DatabaseId)) AS schema_name,
    OBJECT_NAME($(ObjectId), $(DatabaseId)) AS object_name,
    s.name AS queue_schema_name,
    q.name AS queue_name
FROM (VALUES ($(ObjectId), $(DatabaseId))) AS page (object_id, database_id)
LEFT JOIN sys.internal_tables AS t ON t.object_id = page.object_id AND page.database_id = DB_ID()
LEFT JOIN sys.service_queues AS q ON q.object_id = t.parent_object_id
LEFT JOIN sys.schemas AS s ON s.schema_id = q.schema_id;

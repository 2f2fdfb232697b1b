/*
Purpose:   the time on the instance's machine in its own time zone, which the error log uses.
Called by: the sweep, when a lab opens.
Assumes:   nothing.
Variables: none
Columns:   local_time (datetime, as in the error log)
*/
SELECT GETDATE() AS local_time;

/*
Purpose:   why messages are still in the transmission queue. A blank status means not sent yet, or sent and
           waiting for the acknowledgement; any other text is the broker's reason.
Called by: the lab when a queue does not drain; the doctor.
Assumes:   the login is db_owner: others see no row and no error. It reads the queue, so do not run it every second.
Variables: none
Columns:   transmission_status, messages (bigint), oldest_enqueue_time (datetime, UTC)
*/
SELECT transmission_status, COUNT_BIG(*) AS messages, MIN(enqueue_time) AS oldest_enqueue_time
FROM sys.transmission_queue
GROUP BY transmission_status
ORDER BY messages DESC, transmission_status;

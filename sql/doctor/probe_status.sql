/*
Purpose:   why probe messages are still in the transmission queue of this database.
Called by: the doctor, on every instance.
Assumes:   a blank status: not sent yet, or sent and waiting for the acknowledgement.
Variables: none
Columns:   transmission_status, messages (bigint)
*/
SELECT transmission_status, COUNT_BIG(*) AS messages
FROM sys.transmission_queue
WHERE from_service_name = N'//MySSB.com/Lab/S_Probe'
GROUP BY transmission_status
ORDER BY messages DESC, transmission_status;
GO

/*
Purpose:   how many conversations the database has, by state.
Called by: the lab, to see that a pool is complete and warm: all CONVERSING, as many on the target as on the
           initiators together; the doctor.
Assumes:   it reads all endpoints, so do not run it every second.
Variables: none
Columns:   is_initiator (tinyint), state (char(2)), state_desc, conversations (bigint)
*/
SELECT is_initiator, state, state_desc, COUNT_BIG(*) AS conversations
FROM sys.conversation_endpoints
GROUP BY is_initiator, state, state_desc
ORDER BY is_initiator, state;

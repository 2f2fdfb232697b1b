"""What a client or an activation asks for: batches, procedure calls, activated procedures."""

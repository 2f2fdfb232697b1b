"""The state in which statements run: sessions, their frames, and the steps of statements."""

"""The state in which statements run: sessions, frames, steps, and where results go."""

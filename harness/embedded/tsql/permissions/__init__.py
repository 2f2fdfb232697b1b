"""Permissions: who was granted what, which permission implies which, and the checks of a session."""

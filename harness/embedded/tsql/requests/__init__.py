"""Requests: batches and procedure calls of clients, and activated procedures."""

"""Streaming sources: one port, and one folder for each kind of source."""

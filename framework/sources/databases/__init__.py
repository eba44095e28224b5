"""Databases as streaming sources: snapshots in chunks, and changes from the database's log."""

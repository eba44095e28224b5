"""Snapshots of SQL Server in chunks: bounds by a walk over an index, and their readers."""

"""The database streams that all dialects share: chunks, changes, and the files between reader and Spark."""

"""A stand-in for SQL Server: its statements run, translated by sqlglot, on SQLite files that a model fills.

The model has a log, a capture job, a clean-up job and change tracking. A statement that is not T-SQL for sqlglot fails.
"""

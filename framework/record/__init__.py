"""The event log: what happened in an update, durable within seconds, also under `kill -9`.

Promises that recording never waits for storage or for a hook. The run writes it, the command line
and recovery read it, and Spark reads it as a table.
"""

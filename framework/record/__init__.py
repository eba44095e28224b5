"""The event log of updates: durable within seconds, also after `kill -9`.

Promises that recording an event never waits for storage or for a hook. The run writes the log, the
command line and recovery read it, and Spark reads it as a table.
"""

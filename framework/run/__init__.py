"""Running: the session, tables, quality, streams, and the executor that does the planned steps.

Promises to decide nothing that a plan would not have shown.
"""

"""Calls query functions on a session where a read of a dataset becomes an edge."""

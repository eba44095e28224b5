"""Calls query functions in a session where each read of a dataset becomes an edge of the graph."""

"""The dataflow graph: resolution of names and schemas, and one function per validation rule.

Promises that building a graph runs nothing and writes nothing: query functions are called on
stand-ins that have a schema and no rows.
"""

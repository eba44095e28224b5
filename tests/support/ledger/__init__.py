"""A second kind of database: SQLite files whose triggers write each change into a table.

It polls: it keeps no position for a reader, and is acknowledged nothing. So it shows that the engine needs neither.
"""

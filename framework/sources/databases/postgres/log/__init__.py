"""The log of PostgreSQL: positions, the replication stream, its messages, and the rows of changes."""

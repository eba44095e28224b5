"""PostgreSQL: its catalog, types, chunks and logical replication."""

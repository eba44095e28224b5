"""Tables of PostgreSQL: the catalog, partitions, inheritance, members of publications, and lookups of keys."""

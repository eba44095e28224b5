"""Tables of MySQL and MariaDB: the catalog, lookups of keys, and statements that mend tables."""

"""Values and Spark types that all of AUTO CDC shares: reserved names, columns, event order, authorship of leaves."""

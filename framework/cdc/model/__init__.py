"""Values and Spark types that all of AUTO CDC shares: reserved names, columns, event order, and authors of leaves."""

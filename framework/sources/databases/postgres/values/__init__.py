"""Values of PostgreSQL: their types in Spark and Arrow, and the texts of the log."""

"""Values of SQL Server as types of Spark and Arrow, and as JSON of changes."""

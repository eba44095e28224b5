"""Work that needs Spark, without an update: commands with JSON results, one at a time, as child processes."""

"""Delta tables as streaming sources, read from their transaction log without Spark."""

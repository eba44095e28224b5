"""The rows of Delta tables, read without Spark where that is exact."""

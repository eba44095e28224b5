"""Sessions of Spark, and the execution of queries in them."""

"""Values of tests: their spellings, and their types in Spark."""

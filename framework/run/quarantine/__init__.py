"""The quarantine of a pipeline: a Delta table with the rows that its flows could not write."""

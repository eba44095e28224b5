"""The quarantine of a pipeline: a Delta table with the rows that its flows have rejected."""

"""The tables of a pipeline: their paths, records, ownership and deletion."""

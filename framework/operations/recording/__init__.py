"""Writes tests from real rows: a sample of a dataset's inputs, masked, and the rows that an update makes of them."""

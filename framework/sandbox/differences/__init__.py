"""Differences between the rows of a table and those that a test expects: found, paired and printed."""

"""Tools for whoever operates a pipeline: compares two tables row by row, and measures how far flows are behind."""

"""Resolves the registered datasets to a graph, and gathers all errors."""

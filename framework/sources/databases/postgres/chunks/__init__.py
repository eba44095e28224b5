"""Snapshots of PostgreSQL: plans, bounds and readers of chunks."""

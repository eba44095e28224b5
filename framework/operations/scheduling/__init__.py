"""Schedules of pipelines: what they are, when they fire, and what a server starts for them."""

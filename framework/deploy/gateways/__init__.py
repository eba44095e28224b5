"""Reads about gateways: their event logs, the jobs that run them, and the state of other deploy tools."""

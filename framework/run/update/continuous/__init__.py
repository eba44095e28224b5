"""Keeps the flows of a continuous update running, and retries degraded flows."""

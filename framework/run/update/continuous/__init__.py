"""Keeps the flows of a continuous update running, and tries degraded ones again."""

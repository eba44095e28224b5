"""Spark mechanics of a micro-batch: cached expressions, local checkpoints, background work, session settings."""

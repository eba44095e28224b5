"""Runs a streaming flow: a query of Structured Streaming, or one batch of it."""

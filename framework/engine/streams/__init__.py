"""Readers, sources and queries of streams."""

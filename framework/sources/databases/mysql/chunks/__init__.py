"""Chunks of a snapshot: walks over the index of a key, and readers of ranges."""

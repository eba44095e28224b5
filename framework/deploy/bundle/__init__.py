"""Offline loading of a bundle's target: read, merge, interpolate and check."""

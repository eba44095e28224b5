"""A bundle's target: read, merged, interpolated and checked, offline."""

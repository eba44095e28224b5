"""Bundles: load, compare, guard, deploy. No Spark in this room; its caller is the command line."""

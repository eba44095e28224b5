"""Bundles: load, compare, guard, deploy. This package does not use Spark; its caller is the command line."""

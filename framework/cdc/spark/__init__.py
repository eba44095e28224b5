"""Spark mechanics of a micro-batch: cached expressions and the execution of queries."""

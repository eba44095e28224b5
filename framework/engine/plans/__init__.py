"""Catalyst: plans of queries, their relations and expressions, and what Spark's parser reads."""

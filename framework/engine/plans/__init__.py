"""Catalyst: query plans, their relations and expressions, and the output of Spark's parser."""

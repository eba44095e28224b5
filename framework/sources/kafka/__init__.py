"""Kafka topics as streaming sources, read by Spark's connector."""

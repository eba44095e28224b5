"""Metrics of pipelines for Prometheus, counted from their event logs."""

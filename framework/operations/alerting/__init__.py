"""Alerts of pipelines: what is wrong, told once for each episode, by webhook and mail."""

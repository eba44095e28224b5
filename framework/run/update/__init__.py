"""The run of one update: lock, schedule, retries, results and its journal."""

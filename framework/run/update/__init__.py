"""One update: lock, schedule, retries, results and its journal."""
